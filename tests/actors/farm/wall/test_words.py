"""The page's texts: each in both languages, with the same values in them, and none that is missing."""

import re
from importlib.resources import files

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


def test_no_text_is_ever_markup() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org)"
    )
    for one in WALL.iterdir():
        if one.name.endswith((".js", ".html")):
            assert forbidden.search(one.read_text("utf-8")) is None, one.name
