"""Which phrases a question is made of: the fewest that leave the fewest words over."""

import re
from collections.abc import Iterator, Sequence

import attrs

from sqlassist.parsing import dates_en, dates_zh
from sqlassist.parsing.calendar import Today
from sqlassist.parsing.items import Item, Kind, Sense
from sqlassist.parsing.numbers import is_han_digit, number_at
from sqlassist.parsing.tokens import Token
from sqlassist.parsing.vocabulary import Vocabulary

_LEFT_OVER = 100.0  # one word left over costs more than any number of phrases
_DERIVED = 1.1  # `average sessions`: two phrases as they are written go before one with another ending
_BLOCKED = 0.5  # what says something though it is made of fillers: `为什么`
_SILENT = 0.01


@attrs.frozen
class _Edge:
    end: int
    senses: tuple[Sense, ...]
    cost: float
    is_plural: bool = False


def items_of(text: str, tokens: Sequence[Token], vocabulary: Vocabulary, today: Today) -> tuple[Item, ...]:
    """The phrases of a normalised question, from its first to its last word; what none covers is LEFTOVER."""
    ends = {token.end: number + 1 for number, token in enumerate(tokens)}
    count = len(tokens)
    best: list[tuple[float, _Edge | None]] = [(0.0, None)] * (count + 1)
    for position in range(count - 1, -1, -1):
        best[position] = min(
            ((edge.cost + best[edge.end][0], edge) for edge in _edges(text, tokens, position, vocabulary, today, ends)),
            key=lambda one: one[0],
        )
    return tuple(_walk(text, tokens, best))


def _walk(text: str, tokens: Sequence[Token], best: Sequence[tuple[float, _Edge | None]]) -> Iterator[Item]:
    position = 0
    while position < len(tokens):
        edge = best[position][1]
        assert edge is not None, "every token has an edge"
        covered = text[tokens[position].start : tokens[edge.end - 1].end]
        is_han = any(token.is_han for token in tokens[position : edge.end])
        yield Item(covered, position, edge.end, edge.senses, edge.is_plural, is_han)
        position = edge.end


def _edges(
    text: str,
    tokens: Sequence[Token],
    start: int,
    vocabulary: Vocabulary,
    today: Today,
    ends: dict[int, int],
) -> Iterator[_Edge]:
    token = tokens[start]
    if token.is_silent:
        yield _Edge(start + 1, (Sense(Kind.FILLER),), _SILENT)
        if token.text == "-":
            yield _Edge(start + 1, (Sense(Kind.RANGE),), _SILENT / 2)
    else:
        yield _Edge(start + 1, (Sense(Kind.LEFTOVER),), _LEFT_OVER)
    for match in vocabulary.matches(tokens, start):
        if match.senses[0].kind is Kind.LEFTOVER:
            yield _Edge(match.end, match.senses, _BLOCKED)
            continue
        if match.senses[0].name == "measure" and not _is_counted(tokens, start):
            continue
        derived = min(sense.rank for sense in match.senses) == 1
        yield _Edge(match.end, match.senses, _cost(match.end - start) + derived * _DERIVED, match.is_plural)
    if token.is_han or token.is_number or token.text[0].isalpha():
        for spans in (dates_en.spans_at, dates_zh.spans_at):
            if spans is dates_zh.spans_at and not (token.is_han or token.is_number or token.text in {"q", "h"}):
                continue
            for end, span in spans(text, token.start, today):
                if end in ends:
                    yield _Edge(ends[end], (Sense(Kind.PERIOD, span=span),), _cost(ends[end] - start))
    number = number_at(tokens, start)
    if number is not None:
        end, value, is_percent = number
        yield _Edge(end, (Sense(Kind.NUMBER, number=value, is_percent=is_percent),), _cost(end - start) + 0.1)
    yield from _formatted(text, tokens, start, vocabulary, ends)


def _cost(length: int) -> float:
    """One for a phrase, and a little less the longer it is: of two ways with as many phrases, the longest phrase."""
    return 1.0 - 0.001 * min(length, 20) ** 2


def _formatted(
    text: str, tokens: Sequence[Token], start: int, vocabulary: Vocabulary, ends: dict[int, int]
) -> Iterator[_Edge]:
    """A value that is written out, `S003`, and a number with the last character of a dimension's name, `20级`."""
    for name, form in vocabulary.number_formats.items():
        opening, _, closing = form.partition("{")
        closing = closing.partition("}")[2]
        if opening or closing:
            pattern = rf"{re.escape(opening.casefold())}\s?0*(\d{{1,9}}){re.escape(closing.casefold())}(?![a-z0-9_])"
            found = re.compile(pattern).match(text, tokens[start].start)
            if found is not None:
                end = ends.get(found.end())
                if end is not None:
                    sense = Sense(Kind.VALUE, name, form.format(int(found.group(1))))
                    yield _Edge(end, (sense,), _cost(end - start))
    if tokens[start].is_number or is_han_digit(tokens[start].text):
        number = number_at(tokens, start)
        if number is not None and number[0] < len(tokens) and not number[2]:
            counter = vocabulary.counters.get(tokens[number[0]].text)
            if counter is not None:
                sense = Sense(Kind.VALUE, counter, "", number=number[1])
                yield _Edge(number[0] + 1, (sense,), _cost(number[0] + 1 - start))


def _is_counted(tokens: Sequence[Token], at: int) -> bool:
    """Whether a number or `几` stands before a measure word: alone it may be part of any word."""
    before = tokens[at - 1] if at else None
    return before is not None and (before.is_number or is_han_digit(before.text) or before.text in {"几", "多", "少"})
