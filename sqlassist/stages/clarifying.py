"""When a question is not clear: two to four concrete choices, each of which is a query that has passed the guard."""

import datetime as dt
from collections.abc import Iterable, Iterator

import attrs

from sqlassist.conversation import Choice
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Event, Refusal, Stage
from sqlassist.metric_query import MetricQuery, Period, described
from sqlassist.ports import Subject
from sqlassist.references import reachable_dimensions
from sqlassist.sources import limits_for
from sqlassist.stages.work import Ended, Work
from sqlassist.wording import say

FEWEST, MOST = 2, 4


@attrs.frozen
class Candidate:
    """Something that may have been meant."""

    subject: Subject
    query: MetricQuery
    label: str = ""
    """Before the query in words."""


def clarified(work: Work, text: str, candidates: Iterable[Candidate]) -> Ended | None:
    """The end with a clarification; None where fewer than two candidates can be answered."""
    choices: list[Choice] = []
    for candidate in candidates:
        choice = _choice(work, candidate, str(len(choices) + 1))
        if choice is not None and all(choice.sql != other.sql for other in choices):
            choices.append(choice)
        if len(choices) == MOST:
            break
    if len(choices) < FEWEST:
        return None
    data = {
        "text": text,
        "choices": [{"id": choice.id, "label": choice.label} for choice in choices],
        "tokens": dict(work.tokens()),
        "retries": max(0, work.attempt - 1),
    }
    return Ended(Event(Stage.CLARIFICATION, data), tuple(choices))


def _choice(work: Work, candidate: Candidate, number: str) -> Choice | None:
    subject = candidate.subject
    sql = work.compiled(subject, candidate.query)
    if isinstance(sql, Refusal):
        return None
    limits = limits_for(work.ports.config, subject.source)
    if not isinstance(check(sql, subject.catalog, limits), CheckedQuery):
        return None
    words = described(candidate.query, subject.layer, work.language)
    label = f"{candidate.label}: {words}" if candidate.label else words
    return Choice(number, label, sql, subject.source, candidate.query)


def periods_for(work: Work, subject: Subject, query: MetricQuery) -> Iterator[Candidate]:
    """The same question over a few usual periods."""
    today = work.today(subject)
    month = today.replace(day=1)
    before = (month - dt.timedelta(days=1)).replace(day=1)
    tomorrow = today + dt.timedelta(days=1)
    for key, start, end in (
        ("last_7_days", today - dt.timedelta(days=7), today),
        ("this_month", month, tomorrow),
        ("last_month", before, month),
        ("last_90_days", today - dt.timedelta(days=90), today),
    ):
        label = say(key, work.language)
        yield Candidate(subject, attrs.evolve(query, period=Period(start, end)), label)


def splits_for(subject: Subject, query: MetricQuery) -> Iterator[Candidate]:
    """The same metric without what does not go with it, and by what does."""
    tables = {
        subject.layer.metrics[leaf].table
        for metric in query.metrics
        for leaf in (subject.layer.metrics[metric].ratio or (metric,))
    }
    usable = [
        name
        for name in subject.layer.dimensions
        if all(name in reachable_dimensions(subject.layer, table) for table in tables)
    ]
    kept = attrs.evolve(
        query,
        dimensions=tuple(name for name in query.dimensions if name in usable),
        filters=tuple(one for one in query.filters if one.dimension in usable),
    )
    if kept != query:
        yield Candidate(subject, kept)
    for name in usable[: MOST + 1]:
        if name not in kept.dimensions and subject.layer.dimensions[name].enumerable:
            yield Candidate(subject, attrs.evolve(kept, dimensions=(*kept.dimensions, name)))


def after_refusal(work: Work, refusal: Refusal) -> Ended | None:
    """Choices where a metric query was refused: by a period, by what can be split, or none."""
    decision, subject = work.decision, work.subject
    if decision is None or decision.query is None or subject is None:
        return None
    match refusal.code:
        case (
            "partition_filter_missing"
            | "needs_period"
            | "too_long"
            | "too_slow"
            | "too_many_rows_examined"
            | "full_scan"
        ):
            text = say("which_period", work.language)
            return clarified(work, text, periods_for(work, subject, decision.query))
        case "metric_has_no_time":
            plain = attrs.evolve(decision.query, period=None, compared=None, bucket=None, average_per=None)
            candidates = [Candidate(subject, plain), *splits_for(subject, plain)]
            text = say("cannot_split", work.language, hint=refusal.hint)
            return clarified(work, text, candidates)
        case "not_splittable" | "not_additive" | "not_comparable":
            plain = attrs.evolve(decision.query, share=False, compared=None, order=None, average_per=None)
            text = say("cannot_split", work.language, hint=refusal.hint)
            return clarified(work, text, splits_for(subject, plain))
        case _:
            return None
