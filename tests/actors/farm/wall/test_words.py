"""The page's texts: each in both languages, with the same values in them, and none that is missing."""

import re
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest

from actors.farm.engines import RolloutState
from actors.farm.figures import ENGINE_STATES
from actors.farm.work import AttemptOutcome, RunState
from actors.live_log import DONE, FAILED, NO_EFFECT, SEEN, STOPPED, UNDER_WAY
from actors.phone import UNAUTHORIZED
from actors.results.finding_words import FindingKind, FindingState
from actors.token_store import Role
from inference.health import CircuitState
from policies.action import Action
from sqlassist.messages import LAST_STAGES

ROOT = Path(str(files("actors")))

WALL = files("actors.farm") / "wall"
_ENTRY = re.compile(r'(?:^|[ {])"?([\w.]+)"?: "((?:[^"\\\\]|\\\\.)*)"', re.MULTILINE)
_USED = re.compile(r'\bt\("([\w.]+)"')


def texts(name: str) -> dict[str, str]:
    return dict(_ENTRY.findall((WALL / name).read_text("utf-8")))


def test_both_languages_say_the_same() -> None:
    english, chinese = texts("english.js"), texts("chinese.js")

    assert len(english) > 200
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_text_that_is_used_is_there() -> None:
    english = texts("english.js")
    used = {key for one in WALL.iterdir() if one.name.endswith(".js") for key in _USED.findall(one.read_text("utf-8"))}

    assert used - english.keys() == set()


def snake_case(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def phone_states() -> set[str]:
    """Those that the actors of phones write down: they are words for people, and no enumeration."""
    sources = (ROOT / f"{name}.py" for name in ("fleet", "fleet_phones", "phone", "setup"))
    return {found for one in sources for found in re.findall(r'\.state = "([a-z ]+)"', one.read_text("utf-8"))}


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("state", {*RunState, *AttemptOutcome, *FindingState, *ENGINE_STATES, *phone_states()}),
        ("state", {"free", "busy", "paused", "taken", "needs_human", UNAUTHORIZED}),
        ("rollout", set(RolloutState)),
        ("circuit", set(CircuitState)),
        ("finding", set(FindingKind)),
        ("role", set(Role)),
        ("outcome", {UNDER_WAY, DONE, FAILED, STOPPED, SEEN, NO_EFFECT}),
        ("plan", {"next", "committed", "skipped", "stale"}),
        ("kind", {"restart", "restart_app", *map(snake_case, get_args(Action))}),
        ("end", set(LAST_STAGES)),
    ],
)
def test_there_is_a_word_for_all_that_a_farm_tells(family: str, names: set[str]) -> None:
    known = texts("english.js").keys()

    assert {f"{family}.{name}".replace(" ", "_") for name in names} - known == set()
    assert len(names) > 1


def test_no_text_is_ever_markup() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org)"
    )
    for one in WALL.iterdir():
        if one.name.endswith((".js", ".html")):
            assert forbidden.search(one.read_text("utf-8")) is None, one.name
