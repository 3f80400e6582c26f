"""The executor process: checks again, answers, takes back, and never outlives its owner."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from actors.executor import Executor, ExecutorLost, open_executor
from actors.executor_wire import ExecuteRequest, WireError, decode_answer, decode_request, encode_cancel, encode_execute
from runtime.process import ProcessLost
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import ALPHA, SqlWorld, sql_world

pytestmark = mariadb_marks


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    return sql_world()


@pytest.fixture
def config_file(world: SqlWorld, tmp_path: Path) -> Path:
    path = tmp_path / "sql.toml"
    path.write_text(world.text)
    return path


async def test_it_answers_many_at_once_each_with_its_own(world: SqlWorld, config_file: Path, tmp_path: Path) -> None:
    answers: dict[int, object] = {}

    async with open_executor(config_file, tmp_path / "log") as executor:

        async def ask(number: int) -> None:
            sql = f"SELECT player_id, {number} AS n FROM players ORDER BY player_id LIMIT {number + 1}"
            answers[number] = await executor.execute(ExecuteRequest(ALPHA, "game", sql))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(ask, number)

    for number, answer in answers.items():
        assert isinstance(answer, ResultSet), answer
        assert len(answer.rows) == number + 1
        assert {row[1] for row in answer.rows} == {number}
        assert answer.source == "game"


async def test_it_trusts_nobody(world: SqlWorld, config_file: Path, tmp_path: Path) -> None:
    async with open_executor(config_file, tmp_path / "log") as executor:

        async def code_of(request: ExecuteRequest) -> str:
            answer = await executor.execute(request)
            assert isinstance(answer, Refusal), answer
            return answer.code

        assert await code_of(ExecuteRequest(ALPHA, "game", "SELECT SLEEP(1)")) == "function_not_allowed"
        assert await code_of(ExecuteRequest(ALPHA, "game", "SELECT * FROM core.players")) != ""
        assert (
            await code_of(ExecuteRequest(ALPHA, "game", "SELECT 1 FROM players", "000000000000")) == "catalog_changed"
        )
        assert await code_of(ExecuteRequest(ALPHA, "other", "SELECT 1 FROM players")) == "unknown_source"
        nobody = ExecuteRequest(type(ALPHA)("nobody"), "game", "SELECT 1 FROM players")
        assert await code_of(nobody) == "unknown_tenant"


async def test_a_long_answer_arrives_whole(world: SqlWorld, config_file: Path, tmp_path: Path) -> None:
    sql = "SELECT session_id, LPAD(session_id, 900, '猫') AS pad FROM sessions WHERE day > '2026-01-01' LIMIT 1000"
    async with open_executor(config_file, tmp_path / "log") as executor:
        answer = await executor.execute(ExecuteRequest(ALPHA, "game", sql))

    assert isinstance(answer, ResultSet), answer
    assert len(answer.rows) == 1000
    assert all(len(str(pad)) == 900 for _, pad in answer.rows)
    assert answer.is_truncated is False or len(answer.rows) == 1000


async def test_a_cancelled_question_leaves_the_server_idle(world: SqlWorld, config_file: Path, tmp_path: Path) -> None:
    slow = (
        "SELECT COUNT(*) FROM sessions a JOIN sessions b ON a.channel_id = b.channel_id JOIN sessions c"
        " ON c.channel_id = b.channel_id WHERE a.day > '2026-01-01' AND b.day > '2026-01-01' AND c.day > '2026-01-01'"
    )
    text = world.text.replace("[sources.game.tables.servers]", SLOW_LIMITS + "[sources.game.tables.servers]", 1)
    config_file.write_text(text)
    async with open_executor(config_file, tmp_path / "log") as executor:
        with trio.move_on_after(0.6) as scope:
            answer = await executor.execute(ExecuteRequest(ALPHA, "game", slow))
            pytest.fail(f"it was to be slow: {answer}")
        assert scope.cancelled_caught
        with trio.fail_after(0.5):
            while world.server.queries_of("corral_tenant1"):
                await trio.sleep(0.01)
        after = await executor.execute(ExecuteRequest(ALPHA, "game", "SELECT COUNT(*) FROM servers"))
    assert isinstance(after, ResultSet)


SLOW_LIMITS = "[sources.game.limits]\nplan_gate = false\nmax_join_size = 0\n\n"


async def test_queries_under_way_end_when_it_is_killed(world: SqlWorld, config_file: Path, tmp_path: Path) -> None:
    errors: list[BaseException] = []

    async def ask(executor: Executor) -> None:
        try:
            for _ in range(1000):
                await executor.execute(ExecuteRequest(ALPHA, "game", "SELECT COUNT(*) FROM players"))
        except ExecutorLost as error:
            errors.append(error)

    async with open_executor(config_file, tmp_path / "log") as executor, trio.open_nursery() as nursery:
        nursery.start_soon(ask, executor)
        await trio.sleep(0.1)
        os.kill(_executor_pid(config_file), signal.SIGKILL)
    assert len(errors) == 1
    with pytest.raises(ExecutorLost):
        await executor.execute(ExecuteRequest(ALPHA, "game", "SELECT 1 FROM players"))


def _executor_pid(config_file: Path) -> int:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(config_file).encode() in words and b"actors.executor_serve" in words and b"-I" not in words:
                return int(folder.name)
    raise AssertionError("no executor runs")


async def test_it_does_not_outlive_an_owner_that_is_killed(config_file: Path, tmp_path: Path) -> None:
    program = (
        "import trio, sys\nfrom pathlib import Path\nfrom actors.executor import open_executor\n"
        "async def main():\n"
        f"    async with open_executor(Path({str(config_file)!r}), Path({str(tmp_path / 'log')!r})):\n"
        "        print('up', flush=True)\n        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert owner.stdout is not None
    assert await trio.to_thread.run_sync(owner.stdout.readline) == b"up\n"
    pid = _executor_pid(config_file)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    with trio.fail_after(8):
        while Path(f"/proc/{pid}").exists():
            await trio.sleep(0.05)


async def test_a_wrong_configuration_is_told(tmp_path: Path) -> None:
    path = tmp_path / "sql.toml"
    path.write_text("[sources.game]\ndialect = 'nosuch'\n")
    with pytest.raises(ProcessLost, match="dialect"):
        async with open_executor(path, tmp_path / "log"):
            pytest.fail("it must not start")


def test_the_wire_takes_nothing_else() -> None:
    request = ExecuteRequest(ALPHA, "game", "SELECT '猫\n'", "abc")
    assert decode_request(encode_execute(3, request)) == (3, request)
    assert decode_request(encode_cancel(3)) == (3, None)
    for wrong in (
        b"",
        b"{",
        b"[]",
        b'{"id": "1", "do": "cancel"}',
        b'{"id": 1, "do": "run"}',
        b'{"id":1,"do":"execute"}',
    ):
        with pytest.raises(WireError):
            decode_request(wrong)
    with pytest.raises(WireError):
        decode_answer(b'{"is": "end"}')
