"""Passwords of database accounts: read from 0600 files or the environment, by the processes that use them alone."""

import os
import secrets
from pathlib import Path

from runtime.secret import Secret, take_from_environment
from sqlassist.config import Admin, Credentials

PASSWORD_BYTES = 24  # of randomness


class CredentialError(Exception):
    """A password cannot be had: a file is missing, empty, or others may read it. The text says which and what to do."""


def password_for(credentials: Credentials, account: str) -> Secret:
    """The password of one of our accounts.

    Raises:
        CredentialError: there is none.
        SecretMissing: its environment variable is not set.
    """
    if credentials.environment:
        return take_from_environment(credentials.environment + account.upper())
    return read_secret_file(password_file(credentials, account))


def password_file(credentials: Credentials, account: str) -> Path:
    """Where an account's password is, with `folder`."""
    return Path(credentials.folder) / f"{account}.password"


def make_password(credentials: Credentials, account: str) -> Secret:
    """The password of an account, made and written down if there is none yet.

    Raises:
        CredentialError: it cannot be written, or the file that is there is not fit.
        SecretMissing: passwords come from the environment, and this one is not there.
    """
    if credentials.environment:
        return password_for(credentials, account)
    path = password_file(credentials, account)
    if path.exists():
        return read_secret_file(path)
    text = secrets.token_urlsafe(PASSWORD_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CredentialError(f"{path} cannot be written: {error.strerror}") from error
    return Secret(text)


def admin_password(admin: Admin) -> Secret | None:
    """The password of the account that provisions; None where it has none.

    Raises:
        CredentialError: its file is not fit.
        SecretMissing: its environment variable is not set.
    """
    if admin.environment:
        return take_from_environment(admin.environment)
    return read_secret_file(Path(admin.file)) if admin.file else None


def read_secret_file(path: Path) -> Secret:
    """What a file of mode 0600 holds, without the final newline.

    Raises:
        CredentialError: it is missing, empty, or others may read it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o077:
                raise CredentialError(f"{path} may be read by others (mode {mode & 0o777:o}): chmod 600 {path}")
            text = file.read().decode("utf-8").rstrip("\n")
    except OSError as error:
        raise CredentialError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CredentialError(f"{path} is not UTF-8") from error
    if not text:
        raise CredentialError(f"{path} is empty: it must hold a password")
    return Secret(text)
