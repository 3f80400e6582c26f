"""Receivers of notices as an operator configures them; their addresses and secrets stand in the environment."""

import attrs

from actors.notices import Severity, WebhookForm

_VARIABLE = {"pattern": r"[A-Z_][A-Z0-9_]*", "means": "the name of an environment variable"}


@attrs.frozen
class WebhookConfig:
    """`[[webhooks]]`: one receiver. Its address and secret stand in the environment, never in the file."""

    name: str = attrs.field(metadata={"nonempty": True})
    url_env: str = attrs.field(metadata=_VARIABLE)
    form: WebhookForm = WebhookForm.GENERIC
    secret_env: str | None = attrs.field(default=None, metadata=_VARIABLE)
    """What notices are signed with."""
    least: Severity = Severity.WARNING
    again_minutes: float = attrs.field(default=60.0, metadata={"min": 0})
    """The same thing is told again after so long."""
