"""`corral bench engine` on a rehearsal engine in a process of its own: counts, never times."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from click.testing import CliRunner, Result

from actors.bench.engine import EngineTarget, cached_share, knee_of, picture_of, point_for
from actors.bench.engine_ab import agree
from actors.bench.engines import open_rehearsal_engines
from actors.bench.load import LoadResult, Sample
from actors.bench.result import BenchResult
from actors.bench.vision_meter import VisionMeter
from actors.cli.bench_output import measure
from actors.cli.main import corral
from inference.client import EngineClient
from inference.config import EngineConfig
from inference.latency_curve import parse_curve
from inference.messages import Completion, Usage
from inference.profile import ModelProfile, ReplyCodec
from runtime.ids import EngineId

PER_MILLE = (1000.0, 1000.0)
QUICK = ("--ttft-ms", "1", "--tpot-ms", "0.5")


def sample(
    ended_at: float = 1.0, *, ttft: float = 0.1, decode: float = 0.9, tokens: int = 10, cached: int = 20
) -> Sample:
    usage = Usage(prompt_tokens=100, cached_tokens=cached, output_tokens=tokens)
    completion = Completion("T1", "stop", usage, EngineId("e"), "m", "sticky", 0.0, ttft, decode)
    return Sample(ended_at, ttft, ttft + decode, (0.1,) * (tokens - 1), completion)


def run_on_engine(command: Callable[[str], list[str]], *arguments: str) -> Result:
    """A command, in a thread, on a rehearsal engine that lives as long."""

    async def run() -> Result:
        async with open_rehearsal_engines([arguments]) as (engine,):
            return await trio.to_thread.run_sync(CliRunner().invoke, corral, command(engine.url))

    return trio.run(run)


def test_a_sweep_is_written_as_plan_reads_it_and_drawn(tmp_path: Path) -> None:
    file, picture = tmp_path / "curve.json", tmp_path / "curve.svg"

    def command(url: str) -> list[str]:
        levels = ["--concurrency", "2,1", "--app", "merge", "--output-tokens", "8"]
        return ["bench", "engine", url, *levels, "--json", str(file), "--svg", str(picture)]

    result = run_on_engine(command, "--blind", "--fill", "--ttft-ms", "1", "--tpot-ms", "10")
    written = json.loads(file.read_text("utf-8"))

    assert result.exit_code == 0, result.output
    assert [point["concurrency"] for point in written["points"]] == [1, 2]
    assert [point["requests"] for point in written["points"]] == [24, 24]
    assert all(point["errors"] == {} for point in written["points"])
    assert all(point["output_tokens_mean"] == 8 for point in written["points"])
    assert all(point["engine_cores"] is not None for point in written["points"])
    assert parse_curve(file.read_bytes(), str(file)).points[0].concurrency == 1
    assert written["summary"]["cached share, sliding layout"] < written["summary"]["cached share, append layout"]
    assert written["summary"]["model"] == "rehearsal-7b"
    assert "not told by this engine" in result.output
    assert written["summary"]["vision cache hits, sliding layout"] == "not told by this engine"
    assert "vision_cache_hit_share" not in written["summary"]["at 1"]
    assert written["points"][0]["vision_cache_hit_share"] is None
    assert picture.read_text("utf-8").startswith("<svg xmlns=")


def test_hits_of_the_vision_cache_are_told_apart_from_those_of_the_kv_cache(tmp_path: Path) -> None:
    file = tmp_path / "curve.json"

    def command(url: str) -> list[str]:
        return ["bench", "engine", url, "--concurrency", "1", "--output-tokens", "8", "--json", str(file)]

    result = run_on_engine(command, "--blind", *QUICK, "--vision-cache", "1000")
    written = json.loads(file.read_text("utf-8"))
    summary = written["summary"]

    assert result.exit_code == 0, result.output
    # An episode of the sweep sends 1 + 5 x 2 pictures, 6 of them new at most; one of `sliding` 1 + 10 x 2, and 11.
    assert summary["at 1"]["vision_cache_hit_share"] == written["points"][0]["vision_cache_hit_share"]
    assert 5 / 11 - 1e-4 < summary["at 1"]["vision_cache_hit_share"] < 0.6
    assert 10 / 21 - 1e-4 < summary["vision cache hits, sliding layout"] < 0.6
    assert summary["cached share, sliding layout"] < summary["vision cache hits, sliding layout"]
    assert summary["vision cache hits, append layout"] > summary["vision cache hits, sliding layout"]


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [(b"vllm:mm_cache_queries_total 4\nvllm:mm_cache_hits_total 5\n", "5 of 4 pictures"), (b"", None), (None, None)],
)
async def test_counters_that_lie_are_a_problem_and_none_are_not(behaviour: bytes | None, told: str | None) -> None:
    class Client:
        config = EngineConfig(EngineId("e"), url="http://127.0.0.1:1")

        async def ask(self, path: str) -> bytes | None:
            assert path == "/metrics"
            return behaviour

    meter = VisionMeter(cast("EngineClient", Client()))
    await meter.restart()

    assert await meter.hit_share() is None
    assert (meter.problem is None) == (told is None)
    assert told is None or told in str(meter.problem)


def test_an_engine_with_a_key_is_asked_for_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_BENCH_KEY", "k3y-of-the-test")
    file = tmp_path / "ab.json"

    def command(url: str) -> list[str]:
        options = ["--ab", url, "--app", "merge", "--episodes", "1", "--api-key-env", "CORRAL_BENCH_KEY"]
        return ["bench", "engine", url, *options, "--json", str(file)]

    result = run_on_engine(command, *QUICK, "--blind", "--api-key-env", "CORRAL_BENCH_KEY")

    assert result.exit_code == 0, result.output
    assert json.loads(file.read_text("utf-8"))["summary"]["A"]["model"] == "rehearsal-7b"


@pytest.mark.parametrize("name", ["[/red]", "[bold]x", "\x1b[31m\x1b]0;mine\x07", "\ud800", "a\nb"])
def test_what_an_engine_says_of_itself_neither_styles_nor_steers_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    measure("engine", lambda _: BenchResult("engine", "", {"model": name}, []), None)
    shown = capsys.readouterr().out

    assert "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name) in shown
    assert "\x1b" not in shown


def test_an_engine_agrees_with_itself(tmp_path: Path) -> None:
    file = tmp_path / "ab.json"

    def command(url: str) -> list[str]:
        return ["bench", "engine", url, "--ab", url, "--app", "merge", "--episodes", "1", "--json", str(file)]

    result = run_on_engine(command, *QUICK)
    written = json.loads(file.read_text("utf-8"))

    assert result.exit_code == 0, result.output
    assert written["summary"]["prompts that both answered"] == 6
    assert all(row["same_text"] and row["same_actions"] is not False for row in written["rows"])
    assert written["summary"]["A"]["cached_share"] == written["summary"]["B"]["cached_share"]


def test_an_engine_that_fails_always_is_told_in_one_line() -> None:
    result = run_on_engine(lambda url: ["bench", "engine", url, "--concurrency", "1"], "--fail-rate", "1")

    assert result.exit_code == 3
    assert "answered nothing" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["http://127.0.0.1:1"], 3, "cannot be measured"),
        (["http://127.0.0.1:1", "--model", "m"], 3, "cannot be measured"),
        (["https://127.0.0.1:1", "--model", "m", "--ca-file", "/none.pem"], 3, "/none.pem"),
        (["127.0.0.1:1"], 2, "http://"),
        (["http://127.0.0.1:1", "--concurrency", "1,x"], 2, "1,2,4,8"),
        (["http://127.0.0.1:1", "--concurrency", "0"], 2, "from 1 to"),
        (["http://127.0.0.1:1", "--model", "m", "--profile", "none"], 2, "no profile"),
        (["http://127.0.0.1:1", "--api-key-env", "CORRAL_NO_SUCH_KEY"], 3, "CORRAL_NO_SUCH_KEY"),
    ],
)
def test_wrong_input_ends_in_a_line(arguments: list[str], code: int, words: str) -> None:
    result = CliRunner().invoke(corral, ["bench", "engine", *arguments])

    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_rates_count_only_while_every_worker_was_busy() -> None:
    result = LoadResult([sample(1.0), sample(2.0), sample(3.0, cached=80)], began_at=0.0, busy_until=2.0, ended_at=3.0)
    point = point_for(2, result)

    assert point["requests"] == 3
    assert point["requests_per_second"] == 1.0
    assert point["output_tokens_per_second"] == 10.0
    assert point["cached_share"] == 0.4
    assert (point["ttft_ms_p50"], point["tpot_ms_p50"], point["itl_ms_p99"]) == (100.0, 100.0, 100.0)


def test_a_level_too_short_for_that_counts_as_a_whole() -> None:
    point = point_for(2, LoadResult([sample(1.0), sample(4.0)], began_at=0.0, busy_until=0.5, ended_at=4.0))

    assert point["requests_per_second"] == 0.5


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    result = LoadResult([sample(tokens=1)], {"EngineLost": 1}, began_at=0.0, busy_until=2.0, ended_at=2.0)
    point = point_for(1, result)

    assert point["tpot_ms_p50"] is None
    assert sample(decode=0.0).tpot_seconds is None
    assert point["errors"] == {"EngineLost": 1}
    assert cached_share([]) is None


def test_the_knee_ends_at_the_first_level_past_the_bound() -> None:
    def point(concurrency: int, tpot: float | None) -> dict[str, Any]:
        return {"concurrency": concurrency, "tpot_ms_p50": tpot}

    assert knee_of([point(1, 10.0), point(4, 12.4), point(8, 13.0), point(16, 12.0)]) == 4
    assert knee_of([point(1, None)]) == 1


def test_a_picture_shows_levels_without_a_number_as_gaps() -> None:
    names = [f"{name}_p{share}" for name in ("ttft_ms", "tpot_ms") for share in (50, 95, 99)]
    row: dict[str, Any] = dict.fromkeys([*names, "output_tokens_per_second", "requests_per_second"], 1.0)
    svg = picture_of([{**row, "concurrency": 1}, {**row, "concurrency": 2, "tpot_ms_p50": None}], "model <8b>")

    assert "model &lt;8b&gt;" in svg
    assert svg.count("<polyline") == 8


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ("T500,500", "T530,470", True),
        ("T500,500", "T600,500", False),
        ("T500,500;W03", "T500,500", False),
        ("T500,500", "L500,500,05", False),
        ("W03", "W03", True),
        ("W03", "W09", False),
        ("X1", "X1", True),
        ("T500,500", "what?", False),
        ("what?", "why?", None),
    ],
)
def test_replies_do_the_same_when_their_actions_are_near(first: str, other: str, same: bool | None) -> None:
    profile = ModelProfile()

    assert agree(first, other, profile, profile, across=PER_MILLE) is same


def test_replies_in_two_languages_are_compared_by_what_they_do() -> None:
    json_profile = ModelProfile(codec=ReplyCodec.JSON, coordinates="absolute", max_side=1280)
    reply = '{"action": "tap", "x": 640, "y": 320}'

    assert agree("T500,250", reply, ModelProfile(), json_profile, across=(1000.0, 1280.0)) is True


def test_a_target_does_not_show_its_key() -> None:
    target = EngineTarget("http://127.0.0.1:1", ModelProfile(), "m")

    assert "api_key" not in repr(attrs.evolve(target, name="A"))
