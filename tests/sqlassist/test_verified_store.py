"""The store: nothing is lost, two processes may work on it, and every decision stays on record."""

import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from runtime.ids import TenantId
from sqlassist import verified_store
from sqlassist.verified import Status, VerifiedQuery
from sqlassist.verified_store import VerifiedStore, VerifiedStoreError, open_store

A, B = TenantId("a"), TenantId("b")
QUERY = VerifiedQuery(
    id="",
    tenant=A,
    question="What did whales buy?",
    sql="SELECT 1",
    source="game",
    catalog_version="c1",
    wordings=("大R买了什么",),
    parameters={"server": "server"},
    reasoning="because",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VerifiedStore]:
    opened = open_store(tmp_path / "state")
    yield opened
    opened.close()


def approved(store: VerifiedStore, **changes: object) -> VerifiedQuery:
    query = attrs.evolve(QUERY, status=Status.APPROVED, **changes)  # type: ignore[arg-type]
    return store.add(query, by="eve")


def test_what_is_kept_comes_back_whole(store: VerifiedStore, tmp_path: Path) -> None:
    kept = store.add(QUERY, by="eve", note="please")
    store.close()
    again = open_store(tmp_path / "state")

    assert again.query(kept.id) == kept
    assert attrs.evolve(kept, id="") == QUERY
    assert [(one.by, one.what, one.note) for one in again.decisions(kept.id)] == [("eve", "proposed", "please")]
    again.close()


def test_the_file_is_the_owners_alone(store: VerifiedStore) -> None:
    store.add(QUERY, by="eve")

    for path in store.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_review_is_corrected_and_approved(store: VerifiedStore) -> None:
    kept = store.add(QUERY, by="eve")
    assert [one.id for one in store.queries(A, Status.PROPOSED)] == [kept.id]

    after = store.decide(kept.id, Status.APPROVED, "rita", "joined twice", sql="SELECT 2", wordings=("x",))

    assert (after.sql, after.wordings, after.verified_by) == ("SELECT 2", ("x",), "rita")
    assert after.verified_at
    assert store.queries(A, Status.PROPOSED) == ()
    assert store.query(kept.id) == after
    assert [one.what for one in store.decisions(kept.id)] == ["proposed", "approved"]


def test_an_approved_query_replaces_those_with_its_question(store: VerifiedStore) -> None:
    old = approved(store)
    elsewhere = approved(store, source="logs")
    foreign = approved(store, tenant=B)
    new = store.add(attrs.evolve(QUERY, question="what did whales buy", sql="SELECT 2"), by="eve")
    store.decide(new.id, Status.APPROVED, "rita")

    assert store.query(old.id).status is Status.REJECTED
    assert store.query(old.id).reason == f"replaced by {new.id}"
    assert {one.id for one in store.queries(None, Status.APPROVED)} == {new.id, elsewhere.id, foreign.id}


def test_versions_tell_whose_approved_queries_changed(store: VerifiedStore) -> None:
    assert store.versions() == {}
    kept = store.add(QUERY, by="eve")
    assert store.versions() == {}, "a proposal changes no answer"

    store.decide(kept.id, Status.APPROVED, "rita")
    assert store.versions() == {A: 1}
    store.used(A, kept.id)
    assert store.versions() == {A: 1}
    store.decide(kept.id, Status.REJECTED, "rita")
    assert store.versions() == {A: 2}


def test_uses_are_counted_for_the_owner(store: VerifiedStore) -> None:
    kept = approved(store)
    store.used(A, kept.id)
    store.used(B, kept.id)
    store.used(A, "gone")

    assert store.query(kept.id).use_count == 1
    store.decide(kept.id, Status.APPROVED, "rita", sql="SELECT 3")
    assert store.query(kept.id).use_count == 1


def test_frequent_fallbacks_are_proposed_once(store: VerifiedStore) -> None:
    for text in ("Who left?", "who left", "WHO  left?"):
        store.fell_back(A, text, "game", f"SELECT '{text}'")
    store.fell_back(A, "rare", "game", "SELECT 1")
    store.fell_back(B, "who left", "game", "SELECT 1")

    (proposed,) = store.propose(3)

    assert (proposed.tenant, proposed.question, proposed.origin) == (A, "Who left?", "fallback")
    assert proposed.sql == "SELECT 'WHO  left?'"
    assert proposed.status is Status.PROPOSED
    assert store.propose(3) == ()
    store.decide(proposed.id, Status.REJECTED, "rita")
    assert store.propose(3) == (), "what was rejected is not proposed again"


def test_fallbacks_are_bounded(store: VerifiedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_store, "MAX_FALLBACKS", 5)
    for _ in range(2):
        store.fell_back(A, "often", "game", "SELECT 1")
    for number in range(20):
        store.fell_back(A, f"question {number}", "game", "SELECT 1")

    kept = store.fallbacks(1)
    assert len(kept) == 5
    assert kept[0].question == "often"


def test_the_queue_is_bounded(store: VerifiedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_store, "MAX_QUEUED", 2)
    for number in range(2):
        store.add(attrs.evolve(QUERY, question=f"q{number}"), by="eve")

    with pytest.raises(VerifiedStoreError, match="wait for review"):
        store.add(attrs.evolve(QUERY, question="q3"), by="eve")
    store.add(attrs.evolve(QUERY, tenant=B), by="eve")


def test_a_recheck_does_not_undo_a_correction(store: VerifiedStore) -> None:
    kept = approved(store)
    stale = attrs.evolve(kept, status=Status.STALE, catalog_version="c2", reason="gone")
    corrected = store.decide(kept.id, Status.APPROVED, "rita", sql="SELECT 2")

    assert not store.recheck(stale)
    assert store.query(kept.id) == corrected
    assert store.recheck(attrs.evolve(corrected, status=Status.STALE, catalog_version="c2", reason="gone"))
    assert store.query(kept.id).reason == "gone"
    assert store.decisions(kept.id)[-1].by == "recheck"


@pytest.mark.parametrize("changes", [{"sql": "x" * 30_000}, {"question": "x" * 5000}, {"wordings": ("x" * 5000,)}])
def test_sizes_are_bounded(store: VerifiedStore, changes: dict[str, object]) -> None:
    with pytest.raises(VerifiedStoreError, match="characters, at most"):
        store.add(attrs.evolve(QUERY, **changes), by="eve")  # type: ignore[arg-type]
    assert store.queries() == ()


def test_an_unknown_id_says_what_to_do(store: VerifiedStore) -> None:
    with pytest.raises(VerifiedStoreError, match="corral verified list"):
        store.query("v-0")
    with pytest.raises(VerifiedStoreError, match="corral verified list"):
        store.decide("v-0", Status.APPROVED, "rita")


def test_a_file_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "verified.sqlite").write_text("this is no database at all, whatever its name says" * 10)

    with pytest.raises(VerifiedStoreError, match=r"verified\.sqlite"):
        open_store(tmp_path)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "verified.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(VerifiedStoreError, match="newer release"):
        open_store(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(VerifiedStoreError, match="cannot be opened"):
        open_store(tmp_path / "file" / "state")


def _count_many(folder: str, verified_id: str, times: int) -> None:
    store = open_store(Path(folder))
    for _ in range(times):
        store.used(A, verified_id)
    store.close()


def _die_in_a_change(folder: str) -> None:
    store = open_store(Path(folder))
    with store._change() as cursor:
        cursor.execute("UPDATE queries SET use_count = 1000")
        os._exit(1)


def test_processes_take_turns_and_none_is_lost(tmp_path: Path, store: VerifiedStore) -> None:
    kept = approved(store)
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_count_many, args=(str(tmp_path / "state"), kept.id, 20)) for _ in range(2)]
    for other in others:
        other.start()
    for _ in range(20):
        store.used(A, kept.id)
    for other in others:
        other.join(60)
        assert other.exitcode == 0

    assert store.query(kept.id).use_count == 60


def test_a_process_that_dies_leaves_nothing_half_done(tmp_path: Path, store: VerifiedStore) -> None:
    kept = approved(store)
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_die_in_a_change, args=(str(tmp_path / "state"),))
    other.start()
    other.join(60)

    assert other.exitcode == 1
    assert store.query(kept.id).use_count == 0
    store.used(A, kept.id)
    assert store.query(kept.id).use_count == 1
