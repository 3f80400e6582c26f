"""Provisioning and verifying on a real server: a few blocking statements, run by commands, never beside a question."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import attrs
import pymysql

from runtime.secret import Secret, redact
from sqlassist.catalog import Dialect
from sqlassist.config import SourceConfig, SqlConfig
from sqlassist.credentials import admin_password, make_password, password_for
from sqlassist.execute.errors import ServerUnavailable
from sqlassist.naming import text_literal
from sqlassist.provision import Grant, Provisioning, ServerState, Step
from sqlassist.verify import Attempt, Tried, judge

CONNECT_SECONDS = 10
READ_SECONDS = 600
ACCESS_DENIED = (1044, 1045, 1142, 1227, 1370)
NOT_THERE = (1049, 1146)  # a schema, a table
_NO_LOGIN = "definer"

Connection = pymysql.connections.Connection


class ProvisioningFailed(Exception):
    """A statement of the plan failed, and there is no declared way on without it."""


@attrs.frozen
class Refused:
    """A step that the server did not allow, with a declared way on."""

    step: Step
    code: int


@contextlib.contextmanager
def open_connection(
    source: SourceConfig, user: str, password: Secret | None, *, database: str | None = None, local_infile: bool = False
) -> Iterator["Connection[Any]"]:
    """A connection for the time of the block; every statement commits by itself.

    Raises:
        ServerUnavailable: it cannot be made.
    """
    try:
        connection = pymysql.connect(
            host=source.host,
            port=source.port,
            unix_socket=source.socket or None,
            user=user,
            password="" if password is None else password.reveal(),
            database=database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            local_infile=local_infile,
            ssl_ca=source.tls_ca or None,
            ssl_verify_cert=True if source.tls_ca else None,
        )
    except pymysql.err.OperationalError as error:
        where = source.socket or f"{source.host}:{source.port}"
        raise ServerUnavailable(f"{where} as {user}: {redact(str(error.args[-1]))}") from error
    with contextlib.closing(connection):
        yield connection


@contextlib.contextmanager
def open_admin(source: SourceConfig, *, local_infile: bool = False) -> Iterator["Connection[Any]"]:
    """A connection as the configured administrator.

    Raises:
        ServerUnavailable: it cannot be made, or no administrator is configured.
    """
    if source.admin is None:
        raise ServerUnavailable("no admin is configured for this source: set admin = { user = ..., file = ... }")
    with open_connection(
        source, source.admin.user, admin_password(source.admin), local_infile=local_infile
    ) as connection:
        yield connection


def authentication_for(config: SqlConfig, source: str, *, make: bool) -> dict[str, str]:
    """Account → `IDENTIFIED ...`, for every account of a source that logs in.

    Args:
        config: The configuration.
        source: One of its servers.
        make: Make missing passwords; else a placeholder stands where there is none.

    MariaDB is told a hash, so neither its logs nor a script hold a password. MySQL's hashes are salted: there the text
    is a placeholder unless `make` is set.
    """
    owner = config.sources[source]
    found: dict[str, str] = {}
    for account, role in Provisioning(config, source, {}).accounts().items():
        if role == _NO_LOGIN:
            continue
        if not make:
            found[account] = f"IDENTIFIED BY '<password of {account}>'"
            continue
        password = make_password(owner.credentials, account)
        if owner.dialect is Dialect.MARIADB:
            found[account] = f"IDENTIFIED BY PASSWORD '{native_hash(password)}'"
        else:
            found[account] = f"IDENTIFIED BY {text_literal(password.reveal())}"
    return found


def native_hash(password: Secret) -> str:
    """What MariaDB's PASSWORD() makes of a password."""
    once = hashlib.sha1(password.reveal().encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()


def read_state(connection: "Connection[Any]", prefix: str, account_host: str) -> ServerState:
    """What there is of ours on a server."""
    like = text_literal(prefix.replace("_", "\\_") + "\\_%")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT user FROM mysql.user WHERE user LIKE {like} AND host = {text_literal(account_host)}")
        accounts = frozenset(str(row[0]) for row in cursor.fetchall())
        cursor.execute(f"SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE {like}")
        schemas = frozenset(str(row[0]) for row in cursor.fetchall())
        cursor.execute(f"SELECT table_schema, table_name FROM information_schema.views WHERE table_schema LIKE {like}")
        views = frozenset((str(row[0]), str(row[1])) for row in cursor.fetchall())
        grants: set[Grant] = set()
        for table, place in (
            ("user_privileges", "'', '', ''"),
            ("schema_privileges", "table_schema, '', ''"),
            ("table_privileges", "table_schema, table_name, ''"),
            ("column_privileges", "table_schema, table_name, column_name"),
        ):
            cursor.execute(
                f"SELECT grantee, privilege_type, {place} FROM information_schema.{table}"
                " WHERE privilege_type <> 'USAGE'"
            )
            for grantee, privilege, schema, name, column in cursor.fetchall():
                user, _, host = str(grantee).partition("@")
                if user.strip("'") in accounts and host.strip("'") == account_host:
                    grants.add(Grant(user.strip("'"), str(privilege), str(schema), str(name), str(column)))
    return ServerState(accounts, schemas, views, frozenset(grants))


def apply_steps(connection: "Connection[Any]", steps: tuple[Step, ...]) -> list[Refused]:
    """Run a plan in order.

    Returns:
        The steps that were not allowed, or that stood on one that was not, and that have a declared way on.

    Raises:
        ProvisioningFailed: any other step failed. What ran before it stays; running the plan again goes on.
    """
    refused: list[Refused] = []
    with connection.cursor() as cursor:
        for step in steps:
            try:
                cursor.execute(step.sql)
            except pymysql.err.MySQLError as error:
                code = int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
                is_refused = code in ACCESS_DENIED or (code in NOT_THERE and bool(refused))
                if is_refused and step.if_refused:
                    refused.append(Refused(step, code))
                    continue
                raise ProvisioningFailed(f"{step.what}: {redact(str(error))}: {redact(step.sql)}") from error
    return refused


def try_attempts(config: SqlConfig, source: str, attempts: tuple[Attempt, ...]) -> list[Tried]:
    """Make every attempt under its own account, all of an account on one connection.

    Raises:
        ServerUnavailable: an account cannot log in at all.
    """
    owner = config.sources[source]
    tried: list[Tried] = []
    for account, group in itertools.groupby(attempts, key=lambda attempt: attempt.account):
        with open_connection(owner, account, password_for(owner.credentials, account)) as connection:
            tried += [_tried(connection, attempt) for attempt in group]
    return tried


def _tried(connection: "Connection[Any]", attempt: Attempt) -> Tried:
    with connection.cursor() as cursor:
        try:
            if attempt.schema:
                cursor.execute(f"USE `{attempt.schema}`")
            cursor.execute(attempt.sql)
            rows = cursor.fetchall()
        except pymysql.err.MySQLError as error:
            code = int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
            return judge(attempt, None, code)
    return judge(attempt, [tuple(row) for row in rows], 0)
