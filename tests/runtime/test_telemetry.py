import io
import json
import pickle
from typing import Any

import attrs
import pytest
import structlog
import trio
from structlog.testing import capture_logs

from runtime import telemetry
from runtime.secret import Secret, SecretMissing, redact, secret_from_environment


@pytest.fixture
def lines() -> Any:
    stream = io.StringIO()
    before = structlog.get_config()
    telemetry.configure(json=True, stream=stream, level="debug")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    structlog.configure(**before)


def test_an_event_is_one_json_line(lines: Any) -> None:
    telemetry.emit("runtime.test.passed", seconds=0.5, name="é\n")

    (line,) = lines()
    assert line["event"] == "runtime.test.passed"
    assert line["level"] == "info"
    assert (line["seconds"], line["name"]) == (0.5, "é\n")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("name", ["started", "runtime.started", "Runtime.child.started", "runtime.child.", "a b.c.d"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="past_tense"):
        telemetry.emit(name)


def test_levels_below_are_not_written() -> None:
    stream = io.StringIO()
    before = structlog.get_config()
    telemetry.configure(json=False, stream=stream, level="warning")
    telemetry.emit("runtime.test.passed")
    telemetry.emit("runtime.test.failed", level="error", why="x")
    structlog.configure(**before)

    assert "passed" not in stream.getvalue()
    assert "runtime.test.failed" in stream.getvalue()


async def test_bound_ids_follow_tasks_and_do_not_leak_between_them() -> None:
    async def work(number: int) -> None:
        with telemetry.bind(phone=number):
            await trio.lowlevel.checkpoint()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(speak, number)

    async def speak(number: int) -> None:
        await trio.lowlevel.checkpoint()
        telemetry.emit("runtime.test.spoken", expected=number)

    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as captured:
        with telemetry.bind(run="r1"):
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(work, number)
        telemetry.emit("runtime.test.ended")

    assert all(entry["phone"] == entry["expected"] and entry["run"] == "r1" for entry in captured[:-1])
    assert len(captured) == 6
    assert not {"phone", "run"} & set(captured[-1])


def test_a_secret_shows_nowhere() -> None:
    secret = Secret("hunter2-very")

    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>30}",
        f"{secret:>5}",
        repr([secret]),
    ]
    assert not any("hunter2" in text for text in shown)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(secret)
    assert secret.reveal() == "hunter2-very"
    assert secret == Secret("hunter2-very")
    assert secret != Secret("other-value")
    assert secret != "hunter2-very"


@attrs.frozen
class Holder:
    text: str


def test_known_secrets_are_redacted_from_every_field(lines: Any) -> None:
    value = 'p@ss "w\\ord"/1'
    secret = Secret(value)
    Secret("8675309")
    telemetry.emit(
        "runtime.test.leaked",
        plain=value,
        inside=f"user:{value}@host",
        url="http://h/?p=p%40ss%20%22w%5Cord%22%2F1",
        deep={"a": [value, {"b": (value,)}], value: 1},
        number=8675309,
        count=7,
        holder=Holder(value),
        raw=value.encode(),
        typed=secret,
        exc_info=RuntimeError(f"login with {value} failed"),
    )

    text = json.dumps(lines())
    for leak in ("p@ss", "w\\\\ord", "p%40ss", "8675309"):
        assert leak not in text
    (line,) = lines()
    assert line["inside"] == "user:***@host"
    assert line["count"] == 7
    assert "RuntimeError" in line["exception"]


def test_a_longer_secret_that_contains_a_shorter_one_is_hidden_whole() -> None:
    Secret("abcd")
    Secret("abcdefgh")

    assert redact("x abcdefgh y abcd z") == "x *** y *** z"


def test_a_very_short_secret_does_not_garble_texts() -> None:
    Secret("e")

    assert redact("here") == "here"


def test_secret_from_environment() -> None:
    assert secret_from_environment("KEY", {"KEY": "value-1"}).reveal() == "value-1"
    for environ in ({}, {"KEY": ""}):
        with pytest.raises(SecretMissing, match="KEY"):
            secret_from_environment("KEY", environ)


def test_a_stream_that_refuses_is_counted_and_does_not_raise() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    before = structlog.get_config()
    lost = telemetry.REGISTRY.get_sample_value("runtime_log_lost_lines_total") or 0.0
    telemetry.configure(stream=Full())
    telemetry.emit("runtime.test.passed")
    structlog.configure(**before)

    assert telemetry.REGISTRY.get_sample_value("runtime_log_lost_lines_total") == lost + 1


def test_metrics_are_made_once_and_named_by_their_unit() -> None:
    first = telemetry.counter("runtime_test_drops_total", "Drops.", ["why"])
    assert telemetry.counter("runtime_test_drops_total", "Drops.", ["why"]) is first
    first.labels(why="full").inc()
    telemetry.histogram("runtime_test_seconds", "Time.").observe(0.2)
    telemetry.gauge("runtime_test_phones", "Phones.").set(3)

    text = telemetry.render_metrics().decode()
    assert 'runtime_test_drops_total{why="full"} 1.0' in text
    assert "runtime_test_phones 3.0" in text
    assert 'runtime_test_seconds_bucket{le="0.2"} 1.0' in text
    with pytest.raises(ValueError, match="_total"):
        telemetry.counter("runtime_test_drops", "Drops.")
    with pytest.raises(ValueError, match="unit"):
        telemetry.gauge("runtime_test_speed", "Speed.")
    with pytest.raises(ValueError, match="unit"):
        telemetry.histogram("runtime_test_latency_ms", "Time.")
    with pytest.raises(ValueError, match="exists already"):
        telemetry.counter("runtime_test_drops_total", "Drops.", ["other"])
