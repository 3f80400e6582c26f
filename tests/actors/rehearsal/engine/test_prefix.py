from actors.rehearsal.engine.prefix import Block, PrefixCache, VisionCache, image_block, text_blocks

SYSTEM = text_blocks("s" * 640)
ONE, TWO, THREE = (image_block(name, 560, 560) for name in (b"1", b"2", b"3"))
OLD = text_blocks("h" * 300)
NEW = text_blocks("h" * 300 + "more history")


def tokens(blocks: tuple[Block, ...]) -> int:
    return sum(block.tokens for block in blocks)


def test_the_same_prompt_again_is_cached_but_for_its_last_token() -> None:
    cache = PrefixCache()
    prompt = (*SYSTEM, ONE)

    assert cache.enter(prompt, "a") == 0
    assert cache.enter(prompt, "a") == tokens(prompt) - 1


def test_salts_share_nothing() -> None:
    cache = PrefixCache()
    cache.enter(SYSTEM, "a")

    assert cache.enter(SYSTEM, "b") == 0


def test_a_sliding_window_loses_the_frame_and_append_keeps_it() -> None:
    sliding, append = PrefixCache(), PrefixCache()
    sliding.enter((*SYSTEM, *OLD, ONE, TWO), "a")
    append.enter((*SYSTEM, *OLD, ONE, TWO), "a")

    assert tokens(SYSTEM) <= sliding.enter((*SYSTEM, *NEW, TWO, THREE), "a") < tokens(SYSTEM) + tokens(OLD)
    assert append.enter((*SYSTEM, *OLD, ONE, TWO, THREE), "a") == tokens((*SYSTEM, *OLD, ONE, TWO))


def test_it_forgets_the_oldest_and_stays_bounded() -> None:
    cache = PrefixCache(max_tokens=1000)
    for number in range(50):
        cache.enter((image_block(bytes([number]), 280, 280),), "a")

    assert cache.held_tokens <= 1000
    assert cache.enter((image_block(bytes([49]), 280, 280),), "a") > 0
    assert cache.enter((image_block(bytes([0]), 280, 280),), "a") == 0
    cache.flush()
    assert cache.held_tokens == 0


def test_a_vision_cache_knows_a_picture_wherever_it_stands() -> None:
    cache = VisionCache(2)

    assert cache.enter((*SYSTEM, *OLD, ONE)) == 0
    assert cache.enter((*SYSTEM, *NEW, ONE, TWO)) == 1
    assert cache.enter((*NEW, TWO, THREE)) == 1  # ONE is the oldest, and forgotten
    assert cache.enter((ONE,)) == 0
    assert cache.enter((THREE, THREE)) == 2
    cache.flush()
    assert cache.enter((THREE,)) == 0
