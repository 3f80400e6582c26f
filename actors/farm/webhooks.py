"""Receivers of notices as an operator configures them; their addresses and secrets stand in the environment."""

import attrs

from actors.notice_sender import Webhook
from actors.notices import Severity, WebhookForm
from runtime.secret import secret_from_environment

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


def webhook_for(config: WebhookConfig) -> Webhook:
    """A receiver with its secrets.

    Raises:
        SecretMissing: a variable is not set.
    """
    secret = None if config.secret_env is None else secret_from_environment(config.secret_env)
    url = secret_from_environment(config.url_env)
    return Webhook(config.name, config.form, url, secret, config.least, config.again_minutes * 60.0)
