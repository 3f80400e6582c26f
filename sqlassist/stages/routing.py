"""Stage 1: which way a question goes. It ends at once where nothing has to be looked up."""

from collections.abc import Iterator, Mapping, Sequence

from sqlassist.decision import Decision
from sqlassist.language import folded
from sqlassist.messages import Refusal, Stage, Verb
from sqlassist.metric_query import BUCKET_NAMES, Bucket, MetricQuery, described
from sqlassist.parsing.understand import understand
from sqlassist.ports import Subject
from sqlassist.route import (
    Route,
    complexity_of,
    looks_like_follow_up,
    looks_like_statement,
    never_answerable,
    small_talk,
    statement_in,
    wants_fix,
)
from sqlassist.semantic import SemanticLayer
from sqlassist.stages.clarifying import Candidate, after_refusal, clarified, splits_for
from sqlassist.stages.generating import standalone_for
from sqlassist.stages.work import Ended, Work
from sqlassist.understanding import Ambiguous, NotUnderstood, Understanding, Understood
from sqlassist.wording import say

MAX_CHARACTERS = 4000  # of a question; what is longer is a document
MAX_LISTED = 6


async def route(work: Work) -> Ended | None:
    """Decide the route, tell it, and decide the SQL where no model is needed for that."""
    ended = _by_verb(work)
    if ended is None and work.route is Route.NOT_ANSWERABLE:
        ended = _at_once(work)
    if ended is None and work.decision is None and work.route is Route.NOT_ANSWERABLE:
        ended = await _by_words(work)
    await work.tell(Stage.INTENT, route=work.route, complexity=work.complexity, language=work.language, why=work.why)
    return ended


def _by_verb(work: Work) -> Ended | None:
    """What was asked for by another verb than `ask`."""
    question = work.question
    work.text = question.text.strip()
    if not work.subjects:
        return Ended(work.refused(Refusal("no_data", "", "the tenant has no database")))
    match question.verb:
        case Verb.CHOOSE:
            work.route, work.why = Route.CHOICE, "chosen"
            turn = work.conversation.turn(question.of)
            if turn is None:
                return Ended(work.refused(Refusal("no_such_question", question.of, "")))
            choice = next((one for one in turn.choices if one.id == question.choice), None)
            if choice is None:
                return Ended(work.refused(Refusal("no_such_choice", question.choice, "")))
            work.text, work.language = turn.standalone, turn.language
            _decided(work, Decision(choice.sql, choice.source, "metric", choice.query, choice.label))
        case Verb.FIX:
            work.route, work.why, work.broken_sql = Route.FIX_SQL, "asked", question.sql
            if not question.sql.strip():
                return Ended(work.refused(Refusal("nothing_to_explain", "", "")))
        case Verb.EXPLAIN:
            work.route, work.why = Route.EXPLAIN, "asked"
        case Verb.ASK:
            pass
    return None


def _at_once(work: Work) -> Ended | None:
    """Small talk, SQL, and what can never be answered."""
    text = work.text
    if not text:
        return Ended(work.refused(Refusal("empty_question", "", "")))
    if len(text) > MAX_CHARACTERS:
        refusal = Refusal("question_too_long", "", f"{len(text)} characters")
        return Ended(work.refused(refusal, say("question_too_long", work.language, limit=MAX_CHARACTERS)))
    talk = small_talk(text)
    if talk is not None:
        work.route, work.why = Route.SMALL_TALK, talk.kind
        return Ended(work.answered(_talk(work, talk.kind)))
    statement = statement_in(text)
    if statement is not None and wants_fix(text):
        work.route, work.why, work.broken_sql = Route.FIX_SQL, "asked in words", statement
        return None
    if statement is not None or looks_like_statement(text):
        work.route, work.why = Route.RAW_SQL, "it is SQL"
        source = work.subjects[0].source if len(work.subjects) == 1 else ""
        work.decision = Decision(statement or text, source, "person")
        return None
    names = frozenset(folded(phrase) for subject in work.subjects for phrase in _phrases(subject.layer))
    never = never_answerable(text, work.tenant, names)
    if never is not None:
        work.why = never.code
        return Ended(work.refused(never))
    return None


def _phrases(layer: SemanticLayer) -> Iterator[str]:
    for metric in layer.metrics.values():
        yield from metric.names.every
    for dimension in layer.dimensions.values():
        yield from dimension.names.every


async def _by_words(work: Work) -> Ended | None:
    """From the cheapest way to the dearest: a cache, a verified query, the semantic layer, a model."""
    ports = work.ports
    work.complexity = complexity_of(work.text)
    values = await ports.values(work.tenant)
    work.rollup_days = await ports.rollup_days(work.tenant)
    previous = work.conversation.previous_query
    understood: list[tuple[Subject, Understanding]] = []
    if previous is not None:  # a follow-up is completed before anything is looked up by its words
        understood = [
            (subject, _understand(work, subject, values.get(subject.source, {}))) for subject in work.subjects
        ]
        for subject, one in understood:
            if isinstance(one, Understood) and one.is_follow_up and ports.settings.metric:
                work.text = described(one.query, subject.layer, work.language)
                await work.tell(Stage.RESOLVED, text=work.text)
                return _metric(work, subject, one.query, "a follow-up, completed")
    is_whole = any(isinstance(one, Understood | Ambiguous) for _, one in understood)
    if ports.models and work.conversation.turns() and looks_like_follow_up(work.text) and not is_whole:
        resolved = await standalone_for(work)
        work.leans = not resolved
        if resolved:
            work.text, understood = resolved, []
            await work.tell(Stage.RESOLVED, text=resolved)
    known = _kept(work)
    if known is not None:
        work.route, work.why = Route.EXACT, f"asked before today; it was a {known.author} query"
        _decided(work, known)
        return None
    verified = _verified(work, values)
    if verified is not None:
        work.route, work.why = Route.VERIFIED, f"verified query {verified.verified_id}"
        _decided(work, verified)
        return None
    if not ports.settings.metric:
        return _to_model(work, ())
    if not understood:
        understood = [
            (subject, _understand(work, subject, values.get(subject.source, {}))) for subject in work.subjects
        ]
    return _by_layer(work, understood)


def _kept(work: Work) -> Decision | None:
    """What the same words were found to ask today, wherever that is the same day."""
    day = work.one_day()
    if day is None or work.leans:
        return None
    return work.ports.caches.decision(work.conversation.asker, work.subjects, work.text, day)


def _verified(work: Work, values: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Decision | None:
    """What is approved for these words, each source by its own day; None where that are two."""
    if work.leans:
        return None
    found = [
        match
        for subject in work.subjects
        if (match := work.ports.library.match(work.tenant, work.text, (subject,), work.today(subject), values))
    ]
    return found[0] if len(found) == 1 else None


def _understand(work: Work, subject: Subject, values: Mapping[str, tuple[str, ...]]) -> Understanding:
    turn_query = work.conversation.previous_query
    own = turn_query if turn_query is not None and _fits(turn_query, subject) else None
    return understand(work.text, subject.layer, subject.catalog, today=work.today(subject), values=values, previous=own)


def _fits(query: MetricQuery, subject: Subject) -> bool:
    """Whether a query is about this subject: all its names are in its layer."""
    dimensions = (*query.dimensions, *(one.dimension for one in query.filters))
    return all(name in subject.layer.metrics for name in query.metrics) and all(
        name in subject.layer.dimensions for name in dimensions
    )


def _by_layer(work: Work, understood: list[tuple[Subject, Understanding]]) -> Ended | None:
    whole = [(subject, one) for subject, one in understood if isinstance(one, Understood)]
    if len(whole) == 1:
        return _metric(work, whole[0][0], whole[0][1].query, "every word is accounted for")
    if len(whole) > 1:
        work.why = "several sources could answer it"
        candidates = [Candidate(subject, one.query, subject.layer.title) for subject, one in whole]
        return clarified(work, say("which_meaning", work.language, phrase=work.text), candidates)
    ambiguous = [(subject, one) for subject, one in understood if isinstance(one, Ambiguous)]
    if ambiguous:
        work.route, work.why = Route.METRIC, f"{ambiguous[0][1].phrase!r} is ambiguous"
        candidates = [Candidate(subject, reading.query) for subject, one in ambiguous for reading in one.readings]
        phrase = ambiguous[0][1].phrase
        text = say("which_meaning" if phrase else "which_one", work.language, phrase=phrase)
        ended = clarified(work, text, candidates)
        if ended is not None:
            return ended
    return _to_model(work, [(subject, one) for subject, one in understood if isinstance(one, NotUnderstood)])


def _metric(work: Work, subject: Subject, query: MetricQuery, why: str) -> Ended | None:
    work.route, work.why, work.subject = Route.METRIC, why, subject
    sql = work.compiled(subject, query)
    words = described(query, subject.layer, work.language)
    if isinstance(sql, Refusal):
        work.decision = Decision("", subject.source, "metric", query, words)
        return after_refusal(work, sql) or Ended(work.refused(sql))
    _decided(work, Decision(sql, subject.source, "metric", query, words))
    return None


def _to_model(work: Work, told: Sequence[tuple[Subject, NotUnderstood]]) -> Ended | None:
    work.nearest = tuple((subject, query) for subject, one in told for query in one.nearest)
    if work.ports.models:
        work.route, work.why = Route.RAW_SQL, "no metric question: a model writes it"
        return None
    best = min(told, key=lambda one: (not one[1].nearest, len(one[1].leftover)), default=None)
    words = ", ".join(_spoken(word, best[0].layer, work.language) for word in best[1].leftover) if best else ""
    work.why = best[1].code if best is not None else "no model"
    if best is not None and best[1].nearest:
        candidates = [Candidate(best[0], query) for query in best[1].nearest]
        if len(candidates) == 1:
            candidates += splits_for(best[0], best[1].nearest[0])
        key = "does_not_go" if best[1].code == "not_splittable" else "nearest"
        ended = clarified(work, say(key, work.language, words=words), candidates)
        if ended is not None:
            work.route = Route.METRIC
            return ended
    text = say("needs_model", work.language, words=words or work.text[:80])
    return Ended(work.refused(Refusal("needs_model", words[:80], ""), text, needs_model=True))


def _spoken(word: str, layer: SemanticLayer, language: str) -> str:
    """A word of the question, or the name that people know where it is one of the layer's."""
    if word in layer.metrics:
        return layer.metrics[word].names.label(language, word)
    if word in layer.dimensions:
        return layer.dimensions[word].names.label(language, word)
    return BUCKET_NAMES[Bucket(word)].label(language, word) if word in set(Bucket) else word


def _decided(work: Work, decision: Decision) -> None:
    work.decision = decision
    work.subject = next((one for one in work.subjects if one.source == decision.source), None)


def _talk(work: Work, kind: str) -> str:
    if kind == "thanks":
        return say("thanks", work.language)
    subject = work.subjects[0]
    comma = "、" if work.language == "zh" else ", "
    layer = subject.layer
    metrics = [metric.names.label(work.language, name) for name, metric in layer.metrics.items()][:MAX_LISTED]
    splits = [one.names.label(work.language, name) for name, one in layer.dimensions.items()][:MAX_LISTED]
    example = _example(work, subject)
    return say(kind, work.language, topics=comma.join(metrics), splits=comma.join(splits), example=example)


def _example(work: Work, subject: Subject) -> str:
    metric = next(iter(subject.layer.metrics), "")
    split = next(iter(subject.layer.dimensions), "")
    if not metric:
        return ""
    query = MetricQuery((metric,), (split,) if split else ())
    return described(query, subject.layer, work.language)
