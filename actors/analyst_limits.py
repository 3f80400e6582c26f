"""What the assistant takes on at a time, and from whom."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import attrs

from actors.question_metering import Charge, QuestionMetering
from inference.config import TenantConfig
from inference.messages import Usage
from inference.metering import TokenBucket
from runtime.ids import TenantId
from sqlassist.messages import Asker
from sqlassist.protocol import MAX_MESSAGE_BYTES

MAX_USERS = 10_000  # have a rate of their own remembered
BUSY_SECONDS = 1.0  # after which a question refused for the number of others may be tried again


@attrs.frozen
class AssistantLimits:
    """`[limits]` of an assistant's configuration."""

    message_bytes: int = attrs.field(default=MAX_MESSAGE_BYTES, metadata={"min": 1024, "max": 1 << 20})
    """Of one message from a client."""
    messages_per_minute: int = attrs.field(default=600, metadata={"min": 10})
    """Of one session, pings too. One that sends more is ended."""
    questions_per_minute: int = attrs.field(default=30, metadata={"min": 1})
    """Of one user, over all their sessions."""
    session_questions: int = attrs.field(default=4, metadata={"min": 1})
    """Being answered at a time."""
    tenant_questions: int = attrs.field(default=16, metadata={"min": 1})
    server_questions: int = attrs.field(default=64, metadata={"min": 1})
    tenant_sessions: int = attrs.field(default=500, metadata={"min": 1})
    """Those that wait for a reconnect count too, but give way."""
    server_sessions: int = attrs.field(default=4000, metadata={"min": 1})
    newcomers: int = attrs.field(default=200, metadata={"min": 1})
    """Connections that have not logged in yet."""
    hello_seconds: float = attrs.field(default=10.0, metadata={"above": 0})
    """From the connection to the hello, handshakes included."""
    failed_logins_per_minute: int = attrs.field(default=20, metadata={"min": 1})
    """Of one address. Behind a proxy that is everybody: let the proxy limit then, and raise this."""
    resume_seconds: float = attrs.field(default=120.0, metadata={"min": 0})
    """How long a session outlives its connection."""
    silent_seconds: float = attrs.field(default=90.0, metadata={"above": 0})
    """A client that says nothing for so long is gone. A browser's timer in a hidden tab may fire once a minute only."""
    slow_seconds: float = attrs.field(default=10.0, metadata={"above": 0})
    """Longest that a message may wait for its reader."""
    question_seconds: float = attrs.field(default=300.0, metadata={"above": 0})
    """No question takes longer."""
    kept_events: int = attrs.field(default=500, metadata={"min": 1})
    """Of a session, for a reconnect."""
    kept_bytes: int = attrs.field(default=2 << 20, metadata={"min": 1024})
    drain_seconds: float = attrs.field(default=30.0, metadata={"min": 0})
    """For running questions to end when the server is asked to."""


@attrs.frozen
class Turned:
    """A question that is not taken now."""

    code: str
    message: str
    retry_after: float


@attrs.frozen
class Admitted:
    """A question that was let in: to be handed to `Admission.leave`."""

    asker: Asker
    charge: Charge


@attrs.define(eq=False)
class Admission:
    """Counts the questions of one assistant. Times are seconds of one clock."""

    limits: AssistantLimits
    tenants: Mapping[TenantId, TenantConfig] = attrs.field(factory=dict)
    running: int = attrs.field(default=0, init=False)
    metering: QuestionMetering = attrs.field(init=False)
    _running: dict[TenantId, int] = attrs.field(factory=dict, init=False)
    _users: OrderedDict[tuple[TenantId, str], TokenBucket] = attrs.field(factory=OrderedDict, init=False)

    def __attrs_post_init__(self) -> None:
        self.metering = QuestionMetering(self.tenants)

    def enter(self, asker: Asker, session_running: int, now: float) -> Admitted | Turned:
        """Let a question in, or say why not and for how long.

        Args:
            asker: Who asks.
            session_running: Questions of the same session that are being answered.
            now: Time.
        """
        limits = self.limits
        for running, most, whose in (
            (session_running, limits.session_questions, "this session"),
            (self._running.get(asker.tenant, 0), limits.tenant_questions, "this tenant"),
            (self.running, limits.server_questions, "this server"),
        ):
            if running >= most:
                text = f"{most} questions of {whose} are being answered: wait for one to end"
                return Turned("too_many_questions", text, BUSY_SECONDS)
        user = self._user(asker)
        wait = user.wait_seconds(now)
        if wait > 0:
            text = f"a user may ask {limits.questions_per_minute} questions a minute"
            return Turned("too_fast", text, round(wait, 3))
        wait = self.metering.retry_after(asker.tenant, now)
        if wait > 0:
            return Turned("token_limit", "the tokens of this tenant are used up for now", round(wait, 3))
        user.take(1.0, now)
        self.running += 1
        self._running[asker.tenant] = self._running.get(asker.tenant, 0) + 1
        return Admitted(asker, self.metering.begin(asker.tenant, now))

    def leave(self, admitted: Admitted, usage: Usage, now: float) -> None:
        """A question that was let in is over."""
        tenant = admitted.asker.tenant
        self.metering.end(tenant, admitted.charge, usage, now)
        self.running -= 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    def _user(self, asker: Asker) -> TokenBucket:
        key = (asker.tenant, asker.user)
        bucket = self._users.get(key)
        if bucket is None:
            bucket = self._users[key] = TokenBucket(self.limits.questions_per_minute)
            if len(self._users) > MAX_USERS:
                self._users.popitem(last=False)
        else:
            self._users.move_to_end(key)
        return bucket


def is_origin_allowed(origin: str | None, allowed: Sequence[str]) -> bool:
    """Whether a page of this origin may connect. Programs other than browsers send none, and may."""
    return origin is None or origin in allowed
