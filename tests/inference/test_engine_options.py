from inference.engine_options import parse_options
from inference.launch_profile import LAUNCH_PROFILES
from tests.kit.recorded import recorded

SGLANG = parse_options(recorded("sglang-0.5.23-help.txt"))


def test_a_recorded_help() -> None:
    assert SGLANG.lacks("--enable-session-radix-cache") is None
    assert SGLANG.lacks("--kv-cache-dtype", "fp8_e4m3") is None
    assert SGLANG.lacks("--attention-backend", "flashinfer") is None
    assert SGLANG.lacks("--tensor-parallel-size", "2") is None, "the first of two names"
    assert SGLANG.lacks("--config", "/any/file") is None


def test_what_it_lacks() -> None:
    assert SGLANG.lacks("--turbo") == "this engine has no --turbo"
    why = SGLANG.lacks("--kv-cache-dtype", "int4")
    assert why is not None
    assert "does not take 'int4', but auto, " in why


def test_a_flag_that_is_only_spoken_of_does_not_count() -> None:
    text = "options:\n  --old, -o {a,b}     Use\n                        --new-way.\n  --tp-size TP, --tp TP\n"
    options = parse_options(text)

    assert set(options.choices) == {"--old", "-o", "--tp-size", "--tp"}
    assert options.choices["--old"] == frozenset({"a", "b"})


def test_no_help_has_no_flags() -> None:
    assert parse_options("Traceback (most recent call last):\n  File x\n").choices == {}
    assert parse_options("").choices == {}


def test_this_engine_has_every_flag_of_its_profiles() -> None:
    for profile in LAUNCH_PROFILES.values():
        if profile.kind != "sglang":
            continue
        for flag in (*profile.flags, *(flag for rung in profile.ladder for flag in rung.flags)):
            value = None if flag.value is None or "{" in flag.value else flag.value
            assert SGLANG.lacks(flag.name, value) is None, (profile.name, flag)
