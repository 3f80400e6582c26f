"""What does the assistant's server carry? Intent events under load, CPU of a question, and memory of idle sessions."""

import json
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.ask_socket import AssistantAddress, open_assistant_socket
from actors.bench.assistant_pipeline import QUESTIONS
from actors.bench.assistant_server import answering_named
from actors.bench.engines import BenchUnavailable
from actors.bench.processes import cpu_seconds, resident_bytes
from actors.bench.result import BenchResult, Tell
from actors.socket_line import SocketLine
from actors.token_store import Role, create_token
from runtime.ids import TenantId
from runtime.process import ManagedProcess, ProcessPlan, ReadyLine, open_process
from sqlassist.messages import Asker, Event, Question, Stage
from sqlassist.protocol import VERSION, Ask, Hello, encode_request
from sqlassist.protocol_replies import EventMessage, Welcome, decode_reply

SAMPLE = "actors.bench.assistant_pipeline:open_answering"
TENANT = "tenant1"  # of the sample data
WARM_QUESTIONS = 50
SPARE_FILES = 200  # descriptors beside one for each session
REST_SECONDS = 2.0  # until a server that took many connections is at rest
END_SECONDS = 30.0  # for the last answers
AIM_INTENT_MS, AIM_CPU_MS, AIM_IDLE_KB = 200.0, 10.0, 50.0


@attrs.frozen
class AssistantBench:
    """How much is measured."""

    sessions: int = 200
    rate: float = 20.0
    """Questions a second, of all sessions together."""
    seconds: float = 30.0
    idle: int = 1000
    """Sessions that do nothing."""
    alone: int = 300
    """Questions asked one after another in this process, for their CPU time."""
    answering: str = SAMPLE
    """`MODULE:FUNCTION` that opens what answers."""


@attrs.define(eq=False)
class _Asked:
    begun: float
    intent: float | None = None
    ended: float | None = None
    stage: Stage | None = None
    over: trio.Event = attrs.field(factory=trio.Event)


def bench_assistant(plan: AssistantBench, *, tell: Tell) -> BenchResult:
    """Measure; all on this machine, client and server each in a process.

    Raises:
        BenchUnavailable: there are too few descriptors, or what answers cannot be opened.
    """
    try:
        answering_named(plan.answering)
    except ValueError as error:
        raise BenchUnavailable(str(error)) from error
    _raise_files(max(plan.sessions, plan.idle) + SPARE_FILES)
    load, cpu, idle = trio.run(partial(_measure, plan, tell))
    intents = sorted(1000 * (one.intent - one.begun) for one in load if one.intent is not None)
    ends = sorted(1000 * (one.ended - one.begun) for one in load if one.ended is not None)
    own = sorted(cpu)
    unanswered = len(load) - len(ends)
    intent_p95, cpu_p50 = _quantile(intents, 0.95), _quantile(own, 0.5)
    return BenchResult(
        name="assistant",
        command=f"corral bench assistant --sessions {plan.sessions} --rate {plan.rate:g} --seconds {plan.seconds:g} "
        f"--idle {plan.idle} --answering {plan.answering}",
        summary={
            "questions": len(load),
            "unanswered": unanswered,
            "other_ends": sum(one.stage is not Stage.ANSWER for one in load) - unanswered,
            "intent_p50_ms": _rounded(_quantile(intents, 0.5)),
            "intent_p95_ms": _rounded(intent_p95),
            "answer_p50_ms": _rounded(_quantile(ends, 0.5)),
            "answer_p95_ms": _rounded(_quantile(ends, 0.95)),
            "question_cpu_p50_ms": _rounded(cpu_p50),
            "question_cpu_p95_ms": _rounded(_quantile(own, 0.95)),
            **idle,
            "held": intent_p95 is not None
            and intent_p95 <= AIM_INTENT_MS
            and (cpu_p50 is None or cpu_p50 <= AIM_CPU_MS)
            and idle["idle_kb_a_session"] <= AIM_IDLE_KB
            and all(one.stage is Stage.ANSWER for one in load),
        },
        rows=[
            {"intent_ms": _rounded(one), "answer_ms": _rounded(other)}
            for one, other in zip(intents, ends, strict=False)
        ],
        notes=(
            f"Aims: intent p95 <= {AIM_INTENT_MS:g} ms, CPU of a question p50 <= {AIM_CPU_MS:g} ms, an idle session <= "
            f"{AIM_IDLE_KB:g} KB.",
            "CPU of a question is measured in this process, one question at a time, without any server.",
            f"What answers: {plan.answering}.",
        ),
    )


async def _measure(plan: AssistantBench, tell: Tell) -> tuple[list[_Asked], list[float], dict[str, Any]]:
    tell("CPU of a question", 0.0)
    cpu = await _cpu_alone(plan)
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        folder = Path(name)
        _, secret = create_token(
            folder / "tokens.json", user="bench", tenant=TenantId(TENANT), roles=[Role.VIEWER], now=datetime.now(UTC)
        )
        token = secret.reveal()
        async with _server(folder, plan) as (address, _):
            load = await _load(plan, address, token, tell)
        async with _server(folder, plan) as (address, process):
            idle = await _idle(plan, address, token, process, tell)
    return load, cpu, idle


async def _cpu_alone(plan: AssistantBench) -> list[float]:
    """Milliseconds of CPU of each question, after a few for warming up."""

    async def nobody(event: Event) -> None:
        del event
        await trio.lowlevel.checkpoint()

    spent = []
    async with answering_named(plan.answering)() as answering:
        conversation = answering.conversation(Asker("bench", TenantId(TENANT), frozenset({"viewer"})))
        for number in range(WARM_QUESTIONS + plan.alone):
            question = Question(f"q{number}", QUESTIONS[number % len(QUESTIONS)])
            begun = time.process_time_ns()
            await answering.answer(question, conversation, nobody)
            if number >= WARM_QUESTIONS:
                spent.append((time.process_time_ns() - begun) / 1e6)
    return spent


@asynccontextmanager
async def _server(folder: Path, plan: AssistantBench) -> AsyncIterator[tuple[AssistantAddress, ManagedProcess]]:
    command = (sys.executable, "-m", "actors.bench.assistant_server", str(folder / "tokens.json"), plan.answering)
    process_plan = ProcessPlan("assistant", command, folder / "server.log", ReadyLine(_port_in), start_seconds=120.0)
    async with open_process(process_plan) as process:
        yield AssistantAddress("127.0.0.1", int(process.address)), process


def _port_in(line: str) -> str | None:
    try:
        return str(json.loads(line)["port"])
    except (ValueError, KeyError, TypeError):
        return None


async def _load(plan: AssistantBench, address: AssistantAddress, token: str, tell: Tell) -> list[_Asked]:
    """Every session asks in its turn, at an even pace."""
    asked: dict[str, _Asked] = {}
    async with AsyncExitStack() as stack:
        tell("opening sessions", 0.1)
        lines = [await _session(stack, address, token) for _ in range(plan.sessions)]
        async with trio.open_nursery() as nursery:
            for line in lines:
                nursery.start_soon(_listen, line, asked)
            first = trio.current_time()
            for number in range(int(plan.rate * plan.seconds)):
                await trio.sleep_until(first + number / plan.rate)
                name = f"q{number}-{secrets.token_hex(2)}"
                asked[name] = _Asked(trio.current_time())
                question = Question(name, QUESTIONS[number % len(QUESTIONS)])
                await lines[number % len(lines)].send(encode_request(Ask(question)))
                if number % 20 == 0:
                    tell("under load", 0.1 + 0.6 * number / (plan.rate * plan.seconds))
            with trio.move_on_after(END_SECONDS):
                for one in asked.values():
                    await one.over.wait()
            nursery.cancel_scope.cancel()
    return list(asked.values())


async def _listen(line: SocketLine, asked: dict[str, _Asked]) -> None:
    while True:
        reply = decode_reply(await line.receive())
        now = trio.current_time()
        if isinstance(reply, EventMessage):
            one = asked[reply.id]
            if reply.event.stage is Stage.INTENT:
                one.intent = now
            if reply.event.is_last:
                one.ended, one.stage = now, reply.event.stage
                one.over.set()


async def _idle(
    plan: AssistantBench, address: AssistantAddress, token: str, process: ManagedProcess, tell: Tell
) -> dict[str, Any]:
    """Memory of sessions that have said hello and nothing more; a few before them make the server warm."""
    async with AsyncExitStack() as stack:
        for _ in range(min(20, plan.idle)):
            await _session(stack, address, token)
        await trio.sleep(REST_SECONDS)
        server = _program_of(process.pid)
        before = resident_bytes(server)
        for number in range(plan.idle):
            if number % 50 == 0:
                tell("idle sessions", 0.75 + 0.2 * number / plan.idle)
            await _session(stack, address, token)
        await trio.sleep(REST_SECONDS)
        after, busy = resident_bytes(server), cpu_seconds(server)
        await trio.sleep(REST_SECONDS)
        busy = cpu_seconds(server) - busy
        tell("closing", 0.95)
    return {
        "idle_sessions": plan.idle,
        "idle_kb_a_session": _rounded((after - before) / 1024 / max(1, plan.idle)),
        "idle_cpu_ratio": round(busy / REST_SECONDS, 4),
    }


async def _session(stack: AsyncExitStack, address: AssistantAddress, token: str) -> SocketLine:
    line = await stack.enter_async_context(open_assistant_socket(address))
    await line.send(encode_request(Hello(VERSION, token)))
    welcome = decode_reply(await line.receive())
    if not isinstance(welcome, Welcome):
        raise BenchUnavailable(f"the server did not welcome a session: {welcome}")
    return line


def _program_of(leader: int) -> int:
    """The program itself: the leader of its process group only watches it."""
    children = Path(f"/proc/{leader}/task/{leader}/children").read_text("ascii").split()
    return int(children[0]) if children else leader


def _raise_files(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchUnavailable(f"{needed} open files are needed, and {hard} are allowed: ulimit -Hn")
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return None if not ordered else ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _rounded(number: float | None) -> Any:
    return None if number is None else round(number, 2)
