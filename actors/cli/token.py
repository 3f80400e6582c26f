"""`corral token`: who may use the assistant and the farm."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.token_store import Role, TokenStoreError, create_token, read_tokens, revoke_token
from runtime.ids import DEFAULT_TENANT, TenantId

EXIT_WRONG = 2
UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
MAX_DAYS = 36_500

FILE = click.option(
    "--file",
    "path",
    default=Path("tokens.json"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The store, as [tokens] of a configuration names it.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except TokenStoreError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


def _expiry(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """`90d`, `12h`, `2w`, or a date."""
    if value is None:
        return None
    number, unit = value[:-1], value[-1:]
    if number.isdecimal() and unit in UNITS:
        length = min(int(number[:9]) * UNITS[unit], timedelta(days=MAX_DAYS))
        return datetime.now(UTC) + length
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} must be like 90d, 12h, 2w or 2027-01-31") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@click.group()
def token() -> None:
    """Tokens of people and programs. Servers that use the file notice what changes."""


@token.command()
@click.option("--user", required=True, help="Whose it is, for the audit and the history.")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose data may be asked for.")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice([role.value for role in Role]), help="May be repeated."
)
@click.option("--expires", callback=_expiry, metavar="WHEN", help="90d, 12h, 2w or 2027-01-31 (UTC); else never.")
@FILE
@AS_JSON
def create(user: str, tenant: str, roles: tuple[str, ...], expires: datetime | None, path: Path, as_json: bool) -> None:
    """Make a token and print it: this is the only time that it is shown. The role is viewer if none is given."""
    with _errors_told():
        record, secret = create_token(
            path,
            user=user,
            tenant=TenantId(tenant),
            roles=[Role(role) for role in roles or (Role.VIEWER,)],
            now=datetime.now(UTC),
            expires_at=expires,
        )
    if as_json:
        click.echo(json.dumps({**record.as_json(), "token": secret.reveal()}, ensure_ascii=False))
    else:
        click.echo(secret.reveal())
        click.echo(f"token {record.id} for {record.user} of {record.tenant}: it is not shown again", err=True)


@token.command("list")
@FILE
@AS_JSON
def list_command(path: Path, as_json: bool) -> None:
    """Show every token's id, user, tenant, roles and times; never the tokens."""
    with _errors_told():
        records = read_tokens(path)
    if as_json:
        click.echo(json.dumps([record.as_json() for record in records], ensure_ascii=False, indent=1))
        return
    now = datetime.now(UTC)
    table = Table("id", "user", "tenant", "roles", "created", "expires", box=None, header_style="bold")
    for record in records:
        expires = "never" if record.expires_at is None else record.expires_at
        cells = (
            record.id,
            record.user,
            record.tenant,
            ", ".join(record.roles),
            record.created_at,
            f"{expires} (expired)" if record.is_expired(now) else expires,
        )
        table.add_row(*(Text(cell) for cell in cells))
    Console().print(table)


@token.command()
@click.argument("token_id", metavar="ID")
@FILE
@AS_JSON
def revoke(token_id: str, path: Path, as_json: bool) -> None:
    """Make the token of an ID worthless; its sessions end within seconds."""
    with _errors_told():
        record = revoke_token(path, token_id)
    if as_json:
        click.echo(json.dumps(record.as_json(), ensure_ascii=False))
    else:
        click.echo(f"token {record.id} of {record.user} is revoked", err=True)
