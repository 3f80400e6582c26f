"""Real processes: what they must survive or not survive is the kernel's business, so nothing here is faked."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from runtime.process import ProcessLost, ProcessNotReady, ProcessPlan, ReadyLine, ReadyProbe, open_process
from runtime.secret import Secret

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd and PR_SET_PDEATHSIG are Linux")

READY = ReadyLine(lambda line: line.removeprefix("ready ") if line.startswith("ready ") else None)


def plan_for(tmp_path: Path, code: str, **changes: Any) -> ProcessPlan:
    """A process that runs `code`; its pid stands in `tmp_path/pid`."""
    head = f"import os, signal, subprocess, sys, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    plan = ProcessPlan(
        name="p1",
        argv=(sys.executable, "-I", "-S", "-u", "-c", head + textwrap.dedent(code)),
        log_path=tmp_path / "logs" / "p1.log",
        ready=READY,
        start_seconds=20.0,
        stop_grace_seconds=5.0,
    )
    return attrs.evolve(plan, **changes)


def child_pid(tmp_path: Path) -> int:
    return int((tmp_path / "pid").read_text())


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.02)


async def test_ready_line_url_log_and_a_polite_stop(tmp_path: Path) -> None:
    plan = plan_for(
        tmp_path,
        """
        def bye(*_):
            print("leaving", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        print("loading", os.environ["SHARD"])
        sys.stderr.write("a warning\\n")
        print("ready http://127.0.0.1:7")
        time.sleep(60)
        """,
        environment={"SHARD": "s-3"},
    )
    async with open_process(plan) as process:
        assert process.address == "http://127.0.0.1:7"
        pid = child_pid(tmp_path)
        assert is_running(pid)
        assert os.getpgid(pid) == process.pid != os.getpgrp()
    assert not is_running(pid)
    assert process.exit_code == 0
    log = plan.log_path.read_text()
    for words in ("loading s-3", "a warning", "ready http", "leaving"):
        assert words in log


async def test_one_that_ignores_the_request_is_killed_with_its_children(tmp_path: Path) -> None:
    plan = plan_for(
        tmp_path,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
        print("ready", child.pid)
        time.sleep(60)
        """,
        stop_grace_seconds=0.2,
    )
    async with open_process(plan) as process:
        child, pid = int(process.address), child_pid(tmp_path)
        assert is_running(child)
    assert process.exit_code == 137
    await wait_until(lambda: not is_running(pid))
    await wait_until(lambda: not is_running(child))


async def test_cancelling_leaves_out_the_grace_but_not_the_kill(tmp_path: Path) -> None:
    plan = plan_for(
        tmp_path,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready x")
        time.sleep(60)
        """,
        stop_grace_seconds=30.0,
    )
    began = time.monotonic()
    with trio.CancelScope() as scope:
        async with open_process(plan):
            assert is_running(child_pid(tmp_path))
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    await wait_until(lambda: not is_running(child_pid(tmp_path)))
    assert time.monotonic() - began < 10


async def test_an_end_of_its_own_is_seen_and_its_children_go_too(tmp_path: Path) -> None:
    plan = plan_for(
        tmp_path,
        """
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
        print("ready", child.pid)
        time.sleep(0.1)
        sys.exit(3)
        """,
    )
    async with open_process(plan) as process:
        assert await process.wait_exit() == 3
        child = int(process.address)
        await wait_until(lambda: not is_running(child))


async def test_kill_9_of_the_process_is_seen(tmp_path: Path) -> None:
    async with open_process(plan_for(tmp_path, "print('ready x')\ntime.sleep(60)")) as process:
        os.kill(child_pid(tmp_path), signal.SIGKILL)
        assert await process.wait_exit() == 137


async def test_kill_9_of_the_group_leader_takes_the_process_along(tmp_path: Path) -> None:
    async with open_process(plan_for(tmp_path, "print('ready x')\ntime.sleep(60)")) as process:
        pid = child_pid(tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        assert await process.wait_exit() == 137
        await wait_until(lambda: not is_running(pid))


async def test_ending_before_ready_tells_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ProcessLost, match=r"(?s)exit code 5 .*CUDA out of memory"):
        async with open_process(plan_for(tmp_path, "sys.stderr.write('CUDA out of memory')\nsys.exit(5)")):
            raise AssertionError("it was never ready")


async def test_not_ready_in_time_is_stopped(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, "print('loading')\ntime.sleep(60)", start_seconds=1.0)
    with pytest.raises(ProcessNotReady, match=r"(?s)not ready within 1 s.*loading"):
        async with open_process(plan):
            raise AssertionError("it was never ready")
    await wait_until(lambda: not is_running(child_pid(tmp_path)))


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, "", argv=("/nonexistent/program",))
    with pytest.raises(ProcessLost, match="/nonexistent/program"):
        async with open_process(plan):
            raise AssertionError("it was never ready")


async def test_ready_by_probe(tmp_path: Path) -> None:
    asked = 0

    async def answers() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    plan = plan_for(tmp_path, "time.sleep(60)", ready=ReadyProbe("http://127.0.0.1:9", answers))
    async with open_process(plan) as process:
        assert process.address == "http://127.0.0.1:9"
    assert asked == 3


async def test_much_output_does_not_block_the_process(tmp_path: Path) -> None:
    code = "for _ in range(3000): print('x' * 200)\nprint('ready x')\nsys.stdout.write('z' * 300000)\nsys.exit(0)"
    plan = plan_for(tmp_path, code)
    async with open_process(plan) as process:
        assert await process.wait_exit() == 0
        await wait_until(lambda: plan.log_path.read_text().count("z") == 300000)


OWNER = """
import sys, trio
from pathlib import Path
from runtime.process import ProcessPlan, ReadyLine, open_process

program = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
print("ready", os.getpid(), child.pid, flush=True)
time.sleep(60)
'''

async def main():
    plan = ProcessPlan("p1", (sys.executable, "-I", "-S", "-c", program), Path(sys.argv[1]),
                      ReadyLine(lambda line: line[6:] if line.startswith("ready ") else None), stop_grace_seconds=0.2)
    async with open_process(plan) as process:
        # a worker thread that came and went must not take the process with it
        await trio.to_thread.run_sync(lambda: None)
        print(process.pid, process.address, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_kill_9_of_us_leaves_no_process_and_no_child_of_it(tmp_path: Path) -> None:
    owner = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", OWNER, str(tmp_path / "p1.log")], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    try:
        assert owner.stdout is not None
        line = await trio.to_thread.run_sync(owner.stdout.readline)
        pids = [int(word) for word in line.split()]
        assert len(pids) == 3
        assert all(is_running(pid) for pid in pids)
        owner.kill()
        await wait_until(lambda: not any(is_running(pid) for pid in pids))
    finally:
        owner.kill()
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()


async def test_nothing_leaks_over_ten_launches(tmp_path: Path) -> None:
    def open_fds() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    plan = plan_for(tmp_path, "print('ready x')\ntime.sleep(60)")
    async with open_process(plan):
        pass
    descriptors, tasks = open_fds(), trio.lowlevel.current_statistics().tasks_living
    for _ in range(10):
        async with open_process(plan):
            pass
    assert open_fds() <= descriptors
    assert trio.lowlevel.current_statistics().tasks_living <= tasks


async def test_secrets_are_masked_in_a_redacted_log(tmp_path: Path) -> None:
    secret = Secret("a-secret-of-the-log")
    code = f"""
    print("ready here", flush=True)
    print("key {secret.reveal()} on output", flush=True)
    sys.stderr.write("key {secret.reveal()} on error\\nend")
    sys.stderr.flush()
    time.sleep(60)
    """
    plan = plan_for(tmp_path, code, redacted=True)
    async with open_process(plan):
        await wait_until(lambda: "on error" in plan.log_path.read_text("utf-8"))

    text = plan.log_path.read_text("utf-8")
    assert secret.reveal() not in text
    assert "key *** on output" in text
    assert "key *** on error" in text
    assert text.endswith("end")
