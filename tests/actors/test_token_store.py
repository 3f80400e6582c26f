"""A token is good while it stands in the file, is not expired, and belongs to whoever it was made for."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from actors.token_store import Role, TokenStore, TokenStoreError, create_token, read_tokens, revoke_token
from runtime.ids import TenantId

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _make(path: Path, user: str = "ann", **more: Any) -> tuple[str, str]:
    given: dict[str, Any] = {"user": user, "tenant": TenantId("north"), "roles": [Role.VIEWER], "now": NOW, **more}
    record, secret = create_token(path, **given)
    return record.id, secret.reveal()


def _store(path: Path, now: datetime = NOW) -> TokenStore:
    store = TokenStore(path, now=lambda: now)
    store.load()
    return store


def test_a_token_says_who_one_is_and_is_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tokens.json"
    name, token = _make(path, roles=[Role.REVIEWER, Role.ADMIN, Role.ADMIN])

    record = _store(path).record_for(token)

    assert record is not None
    assert (record.id, record.asker.user, record.asker.tenant) == (name, "ann", "north")
    assert record.asker.roles == {"admin", "reviewer"}
    assert token.rpartition("_")[2] not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(found.name for found in path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_what_is_not_the_token_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    name, token = _make(path)
    _, other = _make(path, "bob")
    store = _store(path)
    swapped = f"corral_{name}_{other.rpartition('_')[2]}"

    for wrong in ("", "x", token[:-1], token + "0", token.upper(), swapped, f"corral_{'0' * 12}_{'0' * 64}", "字"):
        assert store.record_for(wrong) is None


def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _, token = _make(path, expires_at=NOW + timedelta(days=1))

    assert _store(path, NOW + timedelta(hours=23)).record_for(token) is not None
    assert _store(path, NOW + timedelta(days=1)).record_for(token) is None


def test_a_running_store_sees_what_is_made_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    name, token = _make(path)
    store = _store(path)
    record = store.record_for(token)
    assert record is not None
    _, later = _make(path, "bob")

    assert store.record_for(later) is not None
    assert store.is_valid(record)
    revoke_token(path, name)
    assert store.record_for(token) is None
    assert not store.is_valid(record)
    path.unlink()
    assert store.record_for(later) is None


@pytest.mark.parametrize("damage", ["{", "[]", '{"version":2,"tokens":[]}', '{"version":1,"tokens":[{"id":"a"}]}', ""])
def test_a_damaged_file_is_told_and_a_running_store_goes_on(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tokens.json"
    _, token = _make(path)
    store = _store(path)
    path.write_text(damage)

    with structlog.testing.capture_logs() as logs:
        record = store.record_for(token)
    with pytest.raises(TokenStoreError, match="is no file of tokens"):
        _make(path, "bob")

    assert record is not None
    assert [log["event"] for log in logs] == ["actors.tokens.unreadable"]
    assert path.read_text() == damage


def test_a_file_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _make(path)
    path.chmod(0o640)

    with pytest.raises(TokenStoreError, match=r"may be read by others \(mode 640\): chmod 600"):
        _store(path)


def test_a_missing_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TokenStoreError, match="is missing: corral token create"):
        _store(tmp_path / "tokens.json")


def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"user": ""}, "user"),
        ({"user": "a\nb"}, "user"),
        ({"tenant": TenantId("a/b")}, "tenant"),
        ({"roles": []}, "at least one role"),
        ({"expires_at": NOW}, "expired already"),
    )
    for wrong, words in cases:
        with pytest.raises(TokenStoreError, match=words):
            _make(path, **wrong)
    _make(path)
    with pytest.raises(TokenStoreError, match="there is no token 'x'"):
        revoke_token(path, "x")

    assert len(read_tokens(path)) == 1


def test_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TokenStoreError, match="cannot be changed: File exists"):
        _make(tmp_path / "file" / "tokens.json")


def test_many_that_write_at_a_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    threads = [threading.Thread(target=_make, args=(path, f"user{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(record.user for record in read_tokens(path)) == [f"user{number}" for number in range(8)]
    assert json.loads(path.read_text())["version"] == 1
    assert not list(tmp_path.glob(".*"))
