"""What the process says about itself: events as key-values on structlog, numbers on Prometheus, and no secrets.

with telemetry.bind(phone="pixel-7"):
    emit("actors.frame.captured", seconds=0.031)
"""

import functools
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import attrs
import prometheus_client
import structlog

from runtime.secret import Secret, redact, secret_from_environment

__all__ = [
    "REGISTRY",
    "Secret",
    "bind",
    "configure",
    "counter",
    "emit",
    "gauge",
    "histogram",
    "redact",
    "render_metrics",
    "secret_from_environment",
]

REGISTRY = prometheus_client.CollectorRegistry()
"""All metrics of this process."""

UNITS = frozenset(
    {"seconds", "bytes", "ratio", "tokens", "requests", "replies", "engines", "phones", "actors", "tasks", "frames"}
    | {"steps", "episodes", "lines", "messages", "connections", "restarts", "drops", "probes", "score", "pixels"}
    | {"celsius", "watts", "questions", "rows", "actions", "plans", "retries"}
)
"""What the name of a metric may end in."""

LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)
"""Seconds. Dense around 0.1 to 1, where a plan's latency decides whether a bot stalls."""

_EVENT_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){2,3}")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_PLAIN = (bool, type(None))

_metrics: dict[str, Any] = {}  # {name: metric}, so that asking twice gives the same one


@attrs.define(eq=False)
class _LineWriter:
    """Writes whole lines to a stream; one that the stream refuses is counted, as a full disk must not stop a run."""

    stream: TextIO | None

    def write_line(self, text: str) -> None:
        stream = self.stream if self.stream is not None else sys.stderr
        try:
            stream.write(text + "\n")
            stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed
            _LINES_LOST.inc()

    debug = info = warning = error = critical = msg = write_line


@attrs.frozen
class _LevelFilter:
    """Drops what is below the level. A processor, so that `structlog.testing.capture_logs` still sees everything."""

    lowest: int

    def __call__(self, _logger: Any, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if _LEVELS[method] < self.lowest:
            raise structlog.DropEvent
        return fields


def configure(*, json: bool = False, stream: TextIO | None = None, level: str = "info") -> None:
    """Set where events go and how they look; the last call holds, for the whole process.

    Args:
        json: one JSON object a line instead of readable text.
        stream: None is standard error, whatever that is at the time of the event.
        level: events below it are not written.
    """
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if json
        else structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback, sort_keys=False
        )
    )
    structlog.configure(
        processors=[
            _LevelFilter(_LEVELS[level]),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact_fields,
            renderer,
        ],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *_: _LineWriter(stream),
        cache_logger_on_first_use=False,  # a later `configure`, and capture in tests, must reach every caller
    )


def emit(event: str, /, *, level: str = "info", **fields: Any) -> None:
    """Say that something happened.

    Args:
        event: `room.noun.past_tense`, e.g. `actors.phone.quarantined`.
        level: debug, info, warning, error or critical.
        fields: key-values; never pixels, questions or rows. `exc_info=True` (or an exception) adds the traceback.

    Raises:
        ValueError: the name has not this form; it is checked so that events can be found by their names.
    """
    _check_event_name(event)
    getattr(structlog.get_logger(), level)(event, **fields)


@contextmanager
def bind(**ids: Any) -> Iterator[None]:
    """Add ids to every event inside the block, and in tasks that are started inside it."""
    with structlog.contextvars.bound_contextvars(**ids):
        yield


def redact_fields(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A structlog processor: no known secret leaves in any key or value, however deep."""
    return {redact(str(key)): _redacted(value) for key, value in fields.items()}


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(str(value))
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, int | float):
        return value if redact(str(value)) == str(value) else redact(str(value))
    if isinstance(value, Mapping):
        return {redact(str(key)): _redacted(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redacted(inner) for inner in value]
    if isinstance(value, Secret):
        return str(value)
    return redact(repr(value))


@functools.lru_cache(maxsize=1024)
def _check_event_name(event: str) -> None:
    if not _EVENT_NAME.fullmatch(event):
        raise ValueError(f"an event is called room.noun.past_tense, not {event!r}")


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> prometheus_client.Counter:
    """The counter of that name, made at the first call. Its name ends in `<unit>_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"a counter's name ends in _total, not {name!r}")
    _check_unit(name.removesuffix("_total"))
    metric: prometheus_client.Counter = _metric(prometheus_client.Counter, name, documentation, labels)
    return metric


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> prometheus_client.Gauge:
    """The gauge of that name, made at the first call. Its name ends in the unit."""
    _check_unit(name)
    metric: prometheus_client.Gauge = _metric(prometheus_client.Gauge, name, documentation, labels)
    return metric


def histogram(
    name: str, documentation: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY_BUCKETS
) -> prometheus_client.Histogram:
    """The histogram of that name, made at the first call. Its name ends in the unit."""
    _check_unit(name)
    metric: prometheus_client.Histogram = _metric(
        prometheus_client.Histogram, name, documentation, labels, buckets=tuple(buckets)
    )
    return metric


def render_metrics() -> bytes:
    """All metrics in Prometheus' text format."""
    return prometheus_client.generate_latest(REGISTRY)


def _check_unit(name: str) -> None:
    if name.rsplit("_", 1)[-1] not in UNITS:
        raise ValueError(f"the name of a metric ends in its unit, one of {sorted(UNITS)}: {name!r}")


def _metric(kind: Any, name: str, documentation: str, labels: Sequence[str], **options: Any) -> Any:
    known = _metrics.get(name)
    if known is None:
        known = _metrics[name] = kind(name, documentation, tuple(labels), registry=REGISTRY, **options)
    elif type(known) is not kind or known._labelnames != tuple(labels):  # noqa: SLF001  # no public way to ask
        raise ValueError(f"metric {name!r} exists already, as another kind or with other labels")
    return known


_LINES_LOST = counter("runtime_log_lost_lines_total", "Log lines that their stream did not take.")

if not structlog.is_configured():
    configure(level="warning")  # standard output is for results; structlog's own default would write there
