from pathlib import Path

import pytest

from actors.bench.engines import BenchUnavailable
from actors.bench.episodes import app_frames, episode_prompts, recorded_frames, small_frames
from actors.rehearsal.engine.chat import parse_chat
from actors.rehearsal.engine.prefix import PrefixCache
from inference.config import Dialect
from inference.messages import ImagePart, Prompt
from inference.profile import ModelProfile, PromptLayout
from inference.wire import encode_completion


def body(prompt: Prompt) -> bytes:
    return encode_completion(prompt, dialect=Dialect.SGLANG, model="m").body


def images(prompt: Prompt) -> list[str]:
    return [part.sha256 for message in prompt.messages for part in message.parts if isinstance(part, ImagePart)]


def cached_share(layout: PromptLayout) -> float:
    frames = small_frames(11, seed=3, width=216, height=384)
    cache, cached, total = PrefixCache(), 0, 0
    for prompt in episode_prompts("e", frames, ModelProfile(layout=layout), seed=1):
        request = parse_chat(body(prompt), context_length=1 << 20)
        cached += cache.enter(request.blocks, request.salt)
        total += request.prompt_tokens
    return cached / total


def test_equal_seeds_give_equal_bytes() -> None:
    first, again, other = (
        [body(p) for p in episode_prompts("e", small_frames(3, seed=s, width=64, height=96), ModelProfile(), seed=s)]
        for s in (1, 1, 2)
    )

    assert first == again
    assert first != other


def test_the_sliding_layout_shows_the_frame_before_and_the_present_one() -> None:
    frames = small_frames(3, seed=1, width=64, height=96)
    shown = [images(prompt) for prompt in episode_prompts("e", frames, ModelProfile(), seed=1)]
    names = [frame.sha256 for frame in frames]

    assert shown == [names[:1], names[:2], names[1:]]


def test_the_append_layout_only_grows_until_it_is_re_based() -> None:
    profile = ModelProfile(layout=PromptLayout.APPEND, rebase_steps=3)
    frames = small_frames(5, seed=1, width=64, height=96)
    counts = [len(images(prompt)) for prompt in episode_prompts("e", frames, profile, seed=1)]

    assert counts == [1, 2, 3, 1, 2]


def test_an_engine_has_more_of_an_appended_prompt_in_its_cache() -> None:
    assert cached_share(PromptLayout.SLIDING) < 0.4 < 0.5 < cached_share(PromptLayout.APPEND)


def test_frames_of_an_app_change_while_it_is_played() -> None:
    frames = app_frames("battler", 4, seed=1, profile=ModelProfile(max_side=320))

    assert len({frame.sha256 for frame in frames}) == 4
    assert all(max(frame.width, frame.height) == 320 for frame in frames)


def test_frames_of_a_run_are_sent_as_they_were_recorded(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    made = small_frames(2, seed=1, width=64, height=96)
    for number, frame in enumerate(made):
        (tmp_path / "frames" / f"{number}.jpg").write_bytes(frame.jpeg)

    assert recorded_frames(tmp_path, 3) == (made[0], made[1], made[0])


def test_a_folder_without_frames_and_an_app_that_is_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(BenchUnavailable, match="holds no frames"):
        recorded_frames(tmp_path, 1)
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(BenchUnavailable, match="no picture"):
        recorded_frames(tmp_path, 1)
    with pytest.raises(BenchUnavailable, match="battler"):
        app_frames("chess", 1, seed=1, profile=ModelProfile())
