"""What operators are told of by webhooks: in the form of whoever takes it, signed as they want it, and not twice.

Forms: a generic JSON object; and those of the group robots of Feishu (custom bot, signature in the body), DingTalk
(custom robot, signature in the address) and WeCom (its address is its secret; text of at most 2,048 bytes).
"""

import base64
import hashlib
import hmac
import json
from collections import OrderedDict
from enum import StrEnum
from urllib.parse import quote_plus

import attrs

MAX_TEXT_BYTES = 2000  # WeCom takes 2,048 bytes of text, the least of the four
SIGNATURE_HEADER = "X-Corral-Signature"
TIME_HEADER = "X-Corral-Timestamp"
KEPT_NOTICES = 10_000


class WebhookForm(StrEnum):
    """Who takes it."""

    GENERIC = "generic"
    FEISHU = "feishu"
    DINGTALK = "dingtalk"
    WECOM = "wecom"


class Severity(StrEnum):
    """How soon somebody should look."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@attrs.frozen
class Notice:
    """Something that an operator should know."""

    key: str
    """The same for the same thing: `phone-offline:P12`. A second one is not told again for a while."""
    title: str
    severity: Severity = Severity.WARNING
    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    link: str = ""

    def in_words(self) -> str:
        """As lines of text, cut so that every form takes it."""
        lines = [f"[{self.severity}] {self.title}", *(f"{name}: {value}" for name, value in self.fields)]
        text = "\n".join([*lines, *([self.text] if self.text else []), *([self.link] if self.link else [])])
        encoded = text.encode("utf-8", "replace")
        return text if len(encoded) <= MAX_TEXT_BYTES else encoded[: MAX_TEXT_BYTES - 3].decode("utf-8", "ignore") + "…"


@attrs.frozen
class WebhookRequest:
    """One HTTP POST."""

    url: str = attrs.field(repr=False)
    """Holds a secret, mostly."""
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    body: bytes


def request_for(notice: Notice, form: WebhookForm, url: str, secret: str, now: float) -> WebhookRequest:
    """The request that tells a notice.

    Args:
        notice: What is told.
        form: Who takes it.
        url: Of the robot, or of the receiver.
        secret: To sign with; empty where the robot has none.
        now: Epoch seconds: signatures hold for an hour at most.
    """
    headers = [("Content-Type", "application/json; charset=utf-8")]
    match form:
        case WebhookForm.GENERIC:
            body = _json(
                {
                    "key": notice.key,
                    "severity": notice.severity,
                    "title": notice.title,
                    "text": notice.text,
                    "fields": dict(notice.fields),
                    "link": notice.link,
                }
            )
            if secret:
                stamp = str(int(now))
                headers += [(TIME_HEADER, stamp), (SIGNATURE_HEADER, generic_signature(body, secret, stamp))]
        case WebhookForm.FEISHU:
            data: dict[str, object] = {"msg_type": "text", "content": {"text": notice.in_words()}}
            if secret:
                stamp = str(int(now))
                data |= {"timestamp": stamp, "sign": feishu_signature(secret, stamp)}
            body = _json(data)
        case WebhookForm.DINGTALK:
            body = _json({"msgtype": "text", "text": {"content": notice.in_words()}})
            if secret:
                stamp = str(int(now * 1000))
                joint = "&" if "?" in url else "?"
                url = f"{url}{joint}timestamp={stamp}&sign={quote_plus(dingtalk_signature(secret, stamp))}"
        case WebhookForm.WECOM:
            body = _json({"msgtype": "text", "text": {"content": notice.in_words()}})
    return WebhookRequest(url, tuple(headers), body)


def generic_signature(body: bytes, secret: str, stamp: str) -> str:
    """`sha256=` and the HMAC-SHA256 of `<timestamp>.<body>` in hex, keyed by the secret."""
    return "sha256=" + hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def feishu_signature(secret: str, stamp: str) -> str:
    r"""Base64 of the HMAC-SHA256 of nothing, keyed by `<timestamp in seconds>\n<secret>`."""
    return base64.b64encode(hmac.new(f"{stamp}\n{secret}".encode(), b"", hashlib.sha256).digest()).decode()


def dingtalk_signature(secret: str, stamp: str) -> str:
    r"""Base64 of the HMAC-SHA256 of `<timestamp in milliseconds>\n<secret>`, keyed by the secret."""
    digest = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def was_taken(form: WebhookForm, status: int, body: bytes) -> bool:
    """Whether a robot took it: they answer 200 to what they refuse, and say so in the body."""
    if not 200 <= status < 300:
        return False
    if form is WebhookForm.GENERIC:
        return True
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(answer, dict):
        return False
    code = answer.get("errcode", answer.get("code", answer.get("StatusCode")))
    return code == 0


def _json(data: dict[str, object]) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@attrs.define
class Told:
    """Which notices were told lately. Pure: `now` is an argument."""

    again_seconds: float = 3600.0
    """The same one is told again after so long."""
    _at: "OrderedDict[str, float]" = attrs.field(factory=OrderedDict, init=False)

    def is_news(self, notice: Notice, now: float) -> bool:
        """Whether to tell it now; a yes is remembered."""
        last = self._at.get(notice.key)
        if last is not None and 0 <= now - last < self.again_seconds:
            return False
        self._at[notice.key] = now
        self._at.move_to_end(notice.key)
        while len(self._at) > KEPT_NOTICES:
            self._at.popitem(last=False)
        return True

    def forget(self, key: str) -> None:
        """It is over: the next one is news."""
        self._at.pop(key, None)
