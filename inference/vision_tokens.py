"""How many tokens a frame is to a model, by the model's own image processor."""

import math

import attrs


@attrs.frozen
class SmartResize:
    """Qwen2-VL to Qwen3-VL: sides are rounded to multiples of a factor, within a range of pixels; factor² is a token.

    As `smart_resize` in transformers' `image_processing_qwen2_vl.py` does it, banker's rounding included.
    """

    factor: int
    """Patch size x merge size: 28 for Qwen2.5-VL, 32 for Qwen3-VL."""
    min_pixels: int
    max_pixels: int

    def tokens(self, width: int, height: int) -> int:
        """Vision tokens of one frame, without the marks around them."""
        factor = self.factor
        high, wide = max(factor, round(height / factor) * factor), max(factor, round(width / factor) * factor)
        if high * wide > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            high = max(factor, math.floor(height / shrink / factor) * factor)
            wide = max(factor, math.floor(width / shrink / factor) * factor)
        elif high * wide < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            high = math.ceil(height * grow / factor) * factor
            wide = math.ceil(width * grow / factor) * factor
        return (high // factor) * (wide // factor)


@attrs.frozen
class Tiles:
    """InternVL: the frame is cut into square tiles in the grid nearest to its aspect ratio, and seen once more whole.

    As `dynamic_preprocess` and `find_closest_aspect_ratio` of InternVL's model cards do it.
    """

    side: int
    tokens_per_tile: int
    min_tiles: int
    max_tiles: int
    thumbnail: bool = True
    """The whole frame as one more tile, unless there is only one."""

    def tokens(self, width: int, height: int) -> int:
        """Vision tokens of one frame, without the marks around them."""
        columns, rows = self.grid(width, height)
        tiles = columns * rows
        return (tiles + (1 if self.thumbnail and tiles != 1 else 0)) * self.tokens_per_tile

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """(columns, rows) of the tiles."""
        sides = range(1, self.max_tiles + 1)
        grids = {(i, j) for i in sides for j in sides if self.min_tiles <= i * j <= self.max_tiles}
        aspect, best, least = width / height, (1, 1), math.inf
        for columns, rows in sorted(grids, key=lambda grid: (grid[0] * grid[1], grid)):
            difference = abs(aspect - columns / rows)
            more = width * height > 0.5 * self.side * self.side * columns * rows
            if difference < least or (difference == least and more):
                best, least = (columns, rows), difference
        return best


VisionRule = SmartResize | Tiles
