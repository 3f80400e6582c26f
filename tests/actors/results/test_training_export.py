import hashlib
import json
from collections import Counter
from pathlib import Path

import attrs
import duckdb
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from actors.cli.main import corral
from actors.results.plan_examples import PlanExample, plan_examples
from actors.results.training_export import SPLITS, ExportFailed, ExportFilter, ExportFormat, export, split_of
from inference.messages import ImagePart, TextPart
from inference.profile import ModelProfile
from policies.planner import PlanRequest, fill, frames_of
from runtime.ids import TenantId
from tests.kit.percepts import percept
from tests.kit.run_folder import run_folder

ALL_TRAINED = (1.0, 0.0, 0.0)


def run_with_pictures(tmp_path: Path) -> Path:
    """A run whose prompts' pictures are on disk, as the recorder leaves them."""
    run = run_folder(tmp_path)
    (run / "events.jsonl").write_text("")
    frames = run / "frames"
    frames.mkdir()
    lines = []
    for example in plan_examples(run):
        shown = {}
        for seq in frames_of(example.turns):
            jpeg = f"picture {seq}".encode()
            digest = hashlib.sha256(jpeg).hexdigest()
            (frames / f"{digest}.jpg").write_bytes(jpeg)
            shown[str(seq)] = digest
        event = {"event": "actors.plan.asked", "request_id": example.request_id, "frames": shown}
        lines.append(json.dumps({"at": 1.0, **event}))
    (run / "events.jsonl").write_text("\n".join(lines) + '\n{"at": 2.0, "event": "actors.pl')  # a crash cut it short
    return run


def test_messages_are_the_prompt_as_it_was_served(tmp_path: Path) -> None:
    run = run_with_pictures(tmp_path)
    examples = list(plan_examples(run))
    done = export(examples, tmp_path / "out", ExportFormat.CHAT, ExportFilter(), ALL_TRAINED, ["run"])

    rows = [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    assert len(rows) == len(examples) == done.examples["train"] > 2
    for row, example in zip(rows, examples, strict=True):
        request = PlanRequest(example.request_id, 0.0, example.why, example.turns, percept(0, 0.0), 0, 0)
        pictures = {
            seq: ImagePart(f"picture {seq}".encode(), example.frames[seq].stem, 1, 1)
            for seq in frames_of(example.turns)
        }
        served = fill(request, pictures, ModelProfile(), tenant=TenantId("t"), routing_key=example.episode)
        *prompt, answer = row["messages"]
        assert [message["role"] for message in prompt] == [message.role for message in served.messages]
        for message, original in zip(prompt, served.messages, strict=True):
            for part, wanted in zip(message["content"], original.parts, strict=True):
                if isinstance(wanted, TextPart):
                    assert part == {"type": "text", "text": wanted.text}
                else:
                    assert part == {"type": "image", "image": f"frames/{wanted.sha256}.jpg"}
                    assert (tmp_path / "out" / part["image"]).read_bytes() == wanted.jpeg
        assert answer == {"role": "assistant", "content": [{"type": "text", "text": "T500,500"}]}
        assert row["outcome"] == "succeeded"
        assert row["score"] == 3.0


def test_parquet_holds_the_same_and_its_pictures(tmp_path: Path) -> None:
    run = run_with_pictures(tmp_path)
    done = export(plan_examples(run), tmp_path / "out", ExportFormat.PARQUET, ExportFilter(), ALL_TRAINED, ["run"])

    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT id, messages, images, score FROM '{tmp_path}/out/train.parquet' ORDER BY id"
        ).fetchall()
    assert len(rows) == done.examples["train"]
    for _, messages, images, score in rows:
        named = {image["name"]: image["jpeg"] for image in images}
        used = [p["image"] for m in json.loads(messages) for p in m["content"] if p["type"] == "image"]
        assert set(used) == set(named)
        assert all(jpeg.startswith(b"picture ") for jpeg in named.values())
        assert score == 3.0


def test_filters_take_what_they_say(tmp_path: Path) -> None:
    (example, *_) = plan_examples(run_with_pictures(tmp_path))
    verified = attrs.evolve(example, actions=tuple(attrs.evolve(one, effect="seen") for one in example.actions))

    assert not ExportFilter(verified=True).keeps(attrs.evolve(example, actions=()))
    assert ExportFilter(verified=True).keeps(verified)
    assert ExportFilter(min_score=3).keeps(example)
    assert not ExportFilter(min_score=3.5).keeps(example)
    assert not ExportFilter(min_score=0).keeps(attrs.evolve(example, score=None))
    assert not ExportFilter(outcomes=("failed",)).keeps(example)
    assert ExportFilter(apps=("game",)).keeps(example)
    assert not ExportFilter(apps=("other",)).keeps(example)


@given(st.lists(st.text(min_size=1, max_size=40), unique=True, min_size=1, max_size=300))
def test_an_episode_stays_in_its_split(episodes: list[str]) -> None:
    shares = (0.8, 0.1, 0.1)

    assert [split_of(one, shares) for one in episodes] == [split_of(one, shares) for one in episodes]
    assert {split_of(one, shares) for one in episodes} <= set(SPLITS)
    assert {split_of(one, (0.0, 0.0, 1.0)) for one in episodes} == {"test"}


def test_splits_have_about_their_shares() -> None:
    counts = Counter(split_of(f"run-{number}", (0.8, 0.1, 0.1)) for number in range(4000))

    assert 0.76 < counts["train"] / 4000 < 0.84
    assert 0.07 < counts["test"] / 4000 < 0.13


def test_nothing_half_written_is_left_and_nothing_is_overwritten(tmp_path: Path) -> None:
    run = run_with_pictures(tmp_path)
    with pytest.raises(ExportFailed, match="no plan is left"):
        export(plan_examples(run), tmp_path / "a", ExportFormat.CHAT, ExportFilter(min_score=9), ALL_TRAINED, [])
    assert not (tmp_path / "a").exists()

    (tmp_path / "b").mkdir()
    with pytest.raises(ExportFailed, match="is there already"):
        export(plan_examples(run), tmp_path / "b", ExportFormat.CHAT, ExportFilter(), ALL_TRAINED, [])


def test_a_plan_whose_picture_is_gone_is_left_out_and_counted(tmp_path: Path) -> None:
    run = run_with_pictures(tmp_path)
    examples: list[PlanExample] = list(plan_examples(run))
    gone = examples[-1].frames[max(examples[-1].frames)]
    gone.unlink()

    done = export(examples, tmp_path / "out", ExportFormat.CHAT, ExportFilter(), ALL_TRAINED, ["run"])

    assert done.without_pictures >= 1
    assert done.examples["train"] == len(examples) - done.without_pictures
    assert f"{done.without_pictures} lacked a picture" in (tmp_path / "out" / "README.md").read_text()


def test_the_command_says_what_it_wrote_and_what_is_wrong(tmp_path: Path) -> None:
    run = run_with_pictures(tmp_path)
    runner = CliRunner()

    done = runner.invoke(corral, ["export", str(run), "--out", str(tmp_path / "out"), "--json", "--split", "1,0,0"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["examples"]["train"] > 0
    assert runner.invoke(corral, ["export", str(run), "--out", str(tmp_path / "out")]).exit_code == 2
    assert runner.invoke(corral, ["export", str(tmp_path / "no"), "--out", str(tmp_path / "x")]).exit_code == 2
    wrong = runner.invoke(corral, ["export", str(run), "--out", str(tmp_path / "x"), "--split", "0.5,0.1"])
    assert wrong.exit_code == 2
    assert "sum up to 1" in wrong.output
