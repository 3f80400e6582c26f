"""The socket into a running run: for its owner alone, whatever is sent to it."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.control import ControlError, KeptDoor, answer_to_line, ask, control_path, open_control


async def echo(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"ok": "fail" not in request, "error": "refused", "got": dict(request)}


async def test_it_answers_and_leaves_nothing(tmp_path: Path) -> None:
    async with open_control(tmp_path, echo) as path:
        assert path == tmp_path / "control.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (await ask(tmp_path, {"command": "x"}))["got"] == {"command": "x"}
        with pytest.raises(ControlError, match="refused"):
            await ask(tmp_path, {"fail": 1})

    assert list(tmp_path.iterdir()) == []


async def test_a_long_path_gets_a_private_place(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("longer" * 10)
    folder.mkdir(parents=True)

    async with open_control(folder, echo) as path:
        assert folder not in path.parents
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert (await ask(folder, {"a": 1}))["got"] == {"a": 1}

    assert not path.parent.exists()
    assert list(folder.iterdir()) == []


async def test_a_run_that_is_over_says_so(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="no run is under way there"):
        await ask(tmp_path, {})


async def test_what_a_killed_run_left_is_no_run(tmp_path: Path) -> None:
    left = trio.socket.socket(trio.socket.AF_UNIX)
    await left.bind(str(control_path(tmp_path)))
    left.close()

    with pytest.raises(ControlError, match="no run is under way there"):
        await ask(tmp_path, {})


async def test_several_requests_and_rubbish_on_one_connection(tmp_path: Path) -> None:
    async with open_control(tmp_path, echo) as path, await trio.open_unix_socket(path) as stream:
        await stream.send_all(b'{"a": 1}\nrubbish\n[1]\n{"b": 2}\n')
        received = b""
        while received.count(b"\n") < 4:
            received += await stream.receive_some()

    answers = [json.loads(line) for line in received.splitlines()]
    assert [answer["ok"] for answer in answers] == [True, False, False, True]
    assert "not JSON" in answers[1]["error"]


async def test_clients_that_hang_up_or_send_without_end_disturb_nobody(tmp_path: Path) -> None:
    async with open_control(tmp_path, echo) as path:
        rude = await trio.open_unix_socket(path)
        await rude.send_all(b'{"a": 1}\n' * 1000)
        await rude.aclose()
        endless = await trio.open_unix_socket(path)
        with pytest.raises(trio.BrokenResourceError):
            await endless.send_all(b"x" * (64 << 20))
        await endless.aclose()

        assert (await ask(tmp_path, {"a": 1}))["ok"] is True


@pytest.mark.parametrize("line", [b"", b"\xff", b"null", b'"x"', b"{"])
async def test_a_wrong_line_is_answered(line: bytes) -> None:
    assert (await answer_to_line(line, echo))["ok"] is False


async def test_a_kept_connection_is_used_again_and_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.control.IDLE_SECONDS", 0.05)
    door = KeptDoor(tmp_path)
    async with open_control(tmp_path, echo):
        assert [(await door.ask({"a": number}))["got"] for number in range(3)] == [{"a": 0}, {"a": 1}, {"a": 2}]
        await trio.sleep(0.2)  # in real time: the run hangs up on whoever is silent

        assert (await door.ask({"b": 1}))["got"] == {"b": 1}
    with pytest.raises(ControlError, match="no run is under way there"):
        await door.ask({"c": 1})
    await door.aclose()


async def test_requests_on_a_kept_connection_wait_for_each_other(tmp_path: Path) -> None:
    door, answers = KeptDoor(tmp_path), []

    async def put(number: int) -> None:
        answers.append((number, (await door.ask({"n": number}))["got"]["n"]))

    async with open_control(tmp_path, echo):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(put, number)
        with pytest.raises(ControlError, match="refused"):
            await door.ask({"fail": 1})
    await door.aclose()

    assert sorted(answers) == [(number, number) for number in range(8)]


async def test_an_answer_that_was_not_waited_for_is_not_taken_for_the_next(tmp_path: Path) -> None:
    async def slow(request: Mapping[str, Any]) -> dict[str, Any]:
        await trio.sleep(request.get("seconds", 0))
        return {"ok": True, "got": dict(request)}

    door = KeptDoor(tmp_path)
    async with open_control(tmp_path, slow):
        await door.ask({"n": 0})
        with trio.move_on_after(0.05):
            await door.ask({"n": 1, "seconds": 0.2})

        assert (await door.ask({"n": 2}))["got"] == {"n": 2}
    await door.aclose()


async def test_a_run_that_is_over_is_told_so_where_the_path_is_too_long_for_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()

    with pytest.raises(ControlError, match="no run is under way there"):
        await ask(folder, {"command": "status"})
