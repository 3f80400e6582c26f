"""The newest events are there, the oldest are given up, and how many are missing is known."""

from hypothesis import given
from hypothesis import strategies as st

from actors.analyst_events import KeptEvents


@given(st.lists(st.text(max_size=8), max_size=40), st.integers(1, 10), st.integers(1, 40), st.data())
def test_what_is_kept_and_what_is_missed_is_all_there_ever_was(
    texts: list[str], most: int, most_bytes: int, data: st.DataObject
) -> None:
    kept = KeptEvents(most, most_bytes)
    for text in texts:
        kept.add(text)
    after = data.draw(st.integers(0, len(texts)))

    missed = kept.missed_after(after)
    given_again, number = [], after
    while (found := kept.next_after(number)) is not None:
        number, text = found
        given_again.append((number, text))

    assert given_again == list(enumerate(texts, start=1))[after + missed :]
    assert len(kept) <= most
    assert len(kept) == min(1, len(texts)) or sum(map(len, texts[len(texts) - len(kept) :])) <= most_bytes


@given(st.integers(0, 20), st.integers(0, 25))
def test_what_was_seen_is_forgotten(count: int, seen: int) -> None:
    kept = KeptEvents(100, 1000)
    for number in range(1, count + 1):
        assert kept.add(str(number)) == number

    kept.seen(seen)

    assert len(kept) == max(0, count - seen)
    assert kept.newest == count
    assert kept.missed_after(0) == min(seen, count)
