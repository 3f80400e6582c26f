"""What `dumpsys window windows` tells of a black screen, in the words of several Androids."""

import pytest

from actors.black_cause import is_protected

WINDOW = """  Window #{number} Window{{{name} u0 {title}}}:
    mDisplayId=0 mSession=Session{{1 2:u0a3}}
    mAttrs={{(0,0)(fillxfill) sim={{adjust=resize}} ty=BASE_APPLICATION {flags}}}
"""
FOCUS = "  mCurrentFocus=Window{1f0a2b3 u0 dev.game/.Main}\n"


@pytest.mark.parametrize(
    ("flags", "protected"),
    [
        ("fl=LAYOUT_IN_SCREEN SECURE LAYOUT_INSET_DECOR", True),
        ("fl=LAYOUT_IN_SCREEN LAYOUT_INSET_DECOR\n      pfl=SECURE_SOMETHING", False),
        ("fl=#81812100", True),
        ("fl=#81810100", False),
        ("", False),
    ],
)
def test_the_flags_of_the_focused_window(flags: str, protected: bool) -> None:
    others = WINDOW.format(number=1, name="aaa0001", title="StatusBar", flags="fl=SECURE")
    focused = WINDOW.format(number=2, name="1f0a2b3", title="dev.game/.Main", flags=flags)
    behind = WINDOW.format(number=3, name="bbb0002", title="dev.bank/.Main", flags="fl=SECURE")

    assert is_protected(others + focused + behind + FOCUS) is protected


@pytest.mark.parametrize("text", ["", "garbage", FOCUS, "mCurrentFocus=null"])
def test_a_phone_that_does_not_tell(text: str) -> None:
    assert not is_protected(text)
