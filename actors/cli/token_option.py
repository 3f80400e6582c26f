"""The token that a command shows to a server: out of a file, or of the environment."""

import os
from pathlib import Path

import click

from runtime.secret import Secret

TOKEN_VARIABLE = "CORRAL_TOKEN"  # noqa: S105  # a name, not a token


def token_of(file: Path | None, who: str) -> Secret:
    """The token.

    Args:
        file: Holds it, mode 0600; None takes the environment's.
        who: Wants it, for the message: `a farm`.

    Raises:
        click.UsageError: there is none, or the file cannot be used.
    """
    from sqlassist.credentials import CredentialError, read_secret_file  # noqa: PLC0415  # only where it is needed

    if file is not None:
        try:
            return read_secret_file(file)
        except CredentialError as error:
            raise click.UsageError(str(error)) from error
    text = os.environ.get(TOKEN_VARIABLE, "")
    if not text or not text.isascii() or not text.isprintable():
        raise click.UsageError(f"{who} wants a token: --token-file FILE, or set {TOKEN_VARIABLE}")
    return Secret(text)
