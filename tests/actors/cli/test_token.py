"""`corral token`: made once shown once, listed, revoked."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.token import token
from actors.token_store import TokenStore


def _run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(token, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def test_a_token_from_making_to_revoking(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    file = f"--file={path}"
    made = json.loads(
        _run("create", "--user=ann", "--tenant=north", "--role=reviewer", "--expires=90d", file, "--json")
    )
    store = TokenStore(path)
    store.load()
    record = store.record_for(made["token"])
    listed = json.loads(_run("list", file, "--json"))
    table = _run("list", file)
    _run("revoke", made["id"], file)

    assert record is not None
    assert (record.user, record.tenant, record.roles) == ("ann", "north", ("reviewer",))
    assert [one["id"] for one in listed] == [made["id"]]
    assert "token" not in listed[0]
    assert "ann" in table
    assert store.record_for(made["token"]) is None


def test_the_token_alone_is_on_standard_output(tmp_path: Path) -> None:
    done = CliRunner().invoke(token, ["create", "--user=ann", f"--file={tmp_path / 't.json'}"])

    assert done.stdout.startswith("corral_")
    assert done.stdout.count("\n") == 1
    assert "not shown again" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "--user=ann", "--expires=soon"), "must be like 90d"),
        (("create", "--user=ann", "--expires=2020-01-01"), "expired already"),
        (("create", "--user=ann", "--tenant=a/b"), "tenant"),
        (("create", "--user=ann", "--role=god"), "god"),
        (("list",), "cannot be read: No such file"),
        (("revoke", "abc"), "is missing"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in _run(*arguments, f"--file={tmp_path / 'tokens.json'}", code=2)
