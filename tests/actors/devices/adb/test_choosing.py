"""Which capture method is chosen, and remembered."""

import json
from pathlib import Path

import pytest

from actors.devices.adb.choosing import Choice, MethodTrial, choose
from actors.devices.adb.method_memory import MethodMemory, encode_memory, memory_key, memory_path, parse_memory
from actors.devices.base import CaptureMethod, DeviceInfo
from policies.geometry import Geometry
from policies.verdict import Agreement
from runtime.ids import PhoneId

PNG, RAW, GZIP, SCRCPY = CaptureMethod.PNG, CaptureMethod.RAW, CaptureMethod.RAW_GZIP, CaptureMethod.SCRCPY
SAME = Agreement.SAME


def chosen(*trials: MethodTrial) -> tuple[CaptureMethod, bool]:
    choice: Choice = choose(trials)
    return choice.method, choice.is_sure


def test_the_quickest_that_agrees() -> None:
    png, raw = MethodTrial(PNG, 0.3, 1, SAME), MethodTrial(RAW, 0.1, 1, SAME)
    assert chosen(png, raw) == (RAW, True)
    for wrong in (Agreement.BLACK, Agreement.SWAPPED, Agreement.DIFFERENT, Agreement.TURNED):
        assert chosen(png, MethodTrial(RAW, 0.1, 1, wrong)) == (PNG, True)
    assert chosen(png, raw, MethodTrial(SCRCPY, 0.002, 1, SAME)) == (SCRCPY, True)
    assert chosen(png, raw, MethodTrial(SCRCPY, error="no such file")) == (RAW, True)
    why = choose([png, raw, MethodTrial(GZIP, 0.05, 1, Agreement.BLACK)]).why
    assert "raw: 100 ms, same" in why
    assert "raw-gzip: 50 ms, black" in why


def test_what_cannot_be_compared_is_not_remembered() -> None:
    assert chosen(MethodTrial(PNG, 0.3), MethodTrial(GZIP, 0.1), MethodTrial(SCRCPY, 0.01)) == (GZIP, False)
    assert chosen(MethodTrial(PNG, error="x"), MethodTrial(RAW, error="y")) == (RAW, False)


async def test_memory_outlives_the_process_and_forgets(tmp_path: Path) -> None:
    path = tmp_path / "state" / "corral" / "capture-methods.json"
    memory = MethodMemory(path)
    assert await memory.get("m") is None
    await memory.put("m", GZIP)

    assert await MethodMemory(path).get("m") is GZIP
    await memory.forget("m")
    assert await MethodMemory(path).get("m") is None
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2, "methods": {}}', b'{"version": 1, "methods": {"m": "telepathy"}}']
)
async def test_a_damaged_memory_is_told_and_rewritten(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "capture-methods.json"
    path.write_bytes(content)
    memory = MethodMemory(path)

    assert await memory.get("m") is None
    assert "memory_unreadable" in "".join(capsys.readouterr())
    await memory.put("m", RAW)
    assert parse_memory(path.read_bytes()) == {"m": RAW}


async def test_a_memory_that_cannot_be_written_does_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    memory = MethodMemory(tmp_path / "file" / "memory.json")
    await memory.put("m", RAW)

    assert await memory.get("m") is RAW
    assert "memory_unwritable" in "".join(capsys.readouterr())


def test_where_and_by_what_it_is_remembered() -> None:
    assert memory_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/corral/capture-methods.json")
    assert memory_path({"HOME": "/h"}) == Path("/h/.local/state/corral/capture-methods.json")
    info = DeviceInfo(PhoneId("P"), "a:1", "Model 1", "13")
    upright, turned = Geometry(720, 1280), Geometry(1280, 720, rotation=1)
    assert memory_key(info, upright, has_stream=True) == memory_key(info, turned, has_stream=True)
    assert memory_key(info, upright, has_stream=True) != memory_key(info, upright, has_stream=False)
    assert json.loads(encode_memory({"k": RAW})) == {"version": 1, "methods": {"k": "raw"}}
