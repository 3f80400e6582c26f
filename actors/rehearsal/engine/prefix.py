"""What a prefix cache, and a vision cache, would have kept of a prompt: counts only, nothing is computed.

A prompt is a chain of blocks in the order in which it is sent: text in blocks of 64 characters (16 tokens), an image
as one block of its own tokens. A block is known when it and everything before it were sent before under the same
salt, as in a radix tree; so a text that grows in front of an image costs that image's cache hit.
"""

import hashlib
from collections import OrderedDict

import attrs

CHARACTERS_PER_TOKEN = 4
BLOCK_CHARACTERS = 64
PIXELS_PER_TOKEN = 28 * 28


@attrs.frozen
class Block:
    """One link of a prompt's chain."""

    content: bytes
    """Tells it from other blocks."""
    tokens: int
    is_image: bool = False


def text_blocks(text: str) -> tuple[Block, ...]:
    """A text as blocks; the last may be short."""
    pieces = [text[at : at + BLOCK_CHARACTERS] for at in range(0, len(text), BLOCK_CHARACTERS)]
    return tuple(Block(piece.encode(), -(-len(piece) // CHARACTERS_PER_TOKEN)) for piece in pieces)


def image_block(digest: bytes, width: int, height: int) -> Block:
    """An image as one block; `digest` identifies its bytes."""
    return Block(digest, max(1, width * height // PIXELS_PER_TOKEN), is_image=True)


@attrs.define
class PrefixCache:
    """Chains seen lately, oldest forgotten first; bounded by the tokens that an engine's memory could hold."""

    max_tokens: int = 1 << 20
    held_tokens: int = 0
    _known: OrderedDict[bytes, int] = attrs.field(factory=OrderedDict, alias="_known")
    """{digest of a block and all before it: its tokens}, oldest use first"""

    def enter(self, blocks: tuple[Block, ...], salt: str) -> int:
        """Remember a prompt; returns how many of its tokens were known, at most all but one.

        An engine computes at least the last token anew, even of a prompt that it has seen whole.
        """
        digest = hashlib.sha256(salt.encode()).digest()
        cached, unbroken, total = 0, True, 0
        for block in blocks:
            digest = hashlib.sha256(digest + bytes([block.is_image]) + block.content).digest()
            total += block.tokens
            known = digest in self._known
            unbroken = unbroken and known
            if unbroken:
                cached += block.tokens
            if known:
                self._known.move_to_end(digest)
            else:
                self._known[digest] = block.tokens
                self.held_tokens += block.tokens
        while self.held_tokens > self.max_tokens and self._known:
            _, tokens = self._known.popitem(last=False)
            self.held_tokens -= tokens
        return max(0, min(cached, total - 1))

    def flush(self) -> None:
        """Forget everything."""
        self._known.clear()
        self.held_tokens = 0


@attrs.define
class VisionCache:
    """Pictures encoded lately, oldest use forgotten first. Not told apart by salt, as real engines do not either."""

    max_pictures: int
    _known: OrderedDict[bytes, None] = attrs.field(factory=OrderedDict, alias="_known")

    def enter(self, blocks: tuple[Block, ...]) -> int:
        """Look up a prompt's pictures, in order, and remember them; returns how many were known."""
        hits = 0
        for block in blocks:
            if not block.is_image:
                continue
            hits += block.content in self._known
            self._known[block.content] = None
            self._known.move_to_end(block.content)
            if len(self._known) > self.max_pictures:
                self._known.popitem(last=False)
        return hits

    def flush(self) -> None:
        """Forget everything."""
        self._known.clear()
