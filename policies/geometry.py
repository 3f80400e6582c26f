"""One typed transform between image, model and device coordinates, and regions that survive other screens.

Three spaces, all with the origin at the top left and x to the right:

- **device**: whole pixels of the screen in its present orientation, as `input tap` takes them;
- **image**: pixels of the frame that we hold, which may have been reduced on the way in;
- **model**: what a vision-language model says, by the convention of its profile.

Rules are written in a fourth, *reference* space: pixels of a screen whose short side is `reference` long,
tied to an edge by an anchor, so that one rule file fits phones of other sizes and aspect ratios.
"""

from enum import StrEnum

import attrs

MAX_REFERENCE = 16384  # pixels; twice the longest side of any phone
REFERENCE_SHORT_SIDE = 720  # the size at which the bundled rules are written; MaaFramework scales to it too


@attrs.frozen
class Geometry:
    """The screen as it was when a frame was captured."""

    width: int
    """Device pixels across, in the present orientation."""
    height: int
    """Device pixels down, in the present orientation."""
    rotation: int = 0
    """Quarter turns, 0 to 3, as Android's `Surface.ROTATION_*`."""
    density: int = 320
    """Dots per inch as `wm density` says."""

    @property
    def short_side(self) -> int:
        """The smaller of width and height."""
        return min(self.width, self.height)

    def contains(self, x: float, y: float) -> bool:
        """True when the point is a pixel of this screen."""
        return 0 <= x < self.width and 0 <= y < self.height


class Coordinates(StrEnum):
    """How a model states a point."""

    PER_MILLE = "per_mille"
    """0 to 999 in each direction, whatever the image's size (Qwen3-VL: x / 1000 of the width)."""
    ABSOLUTE = "absolute"
    """Pixels of the image that was sent."""
    SMART_RESIZED = "smart_resized"
    """Pixels of the image after the processor's `smart_resize` (Qwen2.5-VL, UI-TARS-1.5: multiples of 28)."""


@attrs.frozen
class ModelSpace:
    """The coordinate convention of one model, for images of one size."""

    convention: Coordinates
    image_width: int
    """Pixels across of the image that is sent."""
    image_height: int
    """Pixels down of the image that is sent."""
    factor: int = 28
    """`smart_resize` rounds each side to a multiple of this (patch size x merge size)."""
    min_pixels: int = 56 * 56
    max_pixels: int = 16384 * 28 * 28

    @property
    def extent(self) -> tuple[int, int]:
        """(width, height) of the model's coordinate range."""
        if self.convention is Coordinates.PER_MILLE:
            return (1000, 1000)
        if self.convention is Coordinates.ABSOLUTE:
            return (self.image_width, self.image_height)
        return smart_resize(
            self.image_width,
            self.image_height,
            factor=self.factor,
            min_pixels=self.min_pixels,
            max_pixels=self.max_pixels,
        )


def smart_resize(width: int, height: int, *, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """The (width, height) that Qwen-VL's image processor gives an image.

    Each side becomes the nearest multiple of `factor`; if the area then leaves [min_pixels, max_pixels], both
    sides are scaled by the square root of the ratio and rounded down (too large) or up (too small).
    Source: `smart_resize` of the Qwen2.5-VL processor in transformers.
    """
    new_width = max(factor, round(width / factor) * factor)
    new_height = max(factor, round(height / factor) * factor)
    if new_width * new_height > max_pixels:
        shrink = (width * height / max_pixels) ** 0.5
        new_width = max(factor, int(width / shrink / factor) * factor)
        new_height = max(factor, int(height / shrink / factor) * factor)
    elif new_width * new_height < min_pixels:
        grow = (min_pixels / (width * height)) ** 0.5
        new_width = -int(-width * grow // factor) * factor
        new_height = -int(-height * grow // factor) * factor
    return (new_width, new_height)


def model_to_device(x: float, y: float, space: ModelSpace, geometry: Geometry) -> tuple[int, int]:
    """The device pixel under a model's point.

    The centre of the model's cell is taken, so that a point survives `device_to_model` unchanged. The result is
    not clamped: a point off the screen stays off it, for whoever must refuse it.
    """
    across, down = space.extent
    return (int((x + 0.5) * geometry.width // across), int((y + 0.5) * geometry.height // down))


def device_to_model(x: float, y: float, space: ModelSpace, geometry: Geometry) -> tuple[int, int]:
    """The model's point whose cell holds the centre of a device pixel."""
    across, down = space.extent
    return (int((x + 0.5) * across // geometry.width), int((y + 0.5) * down // geometry.height))


class Anchor(StrEnum):
    """Which part of the screen a reference region keeps its distance to, when the aspect ratio differs."""

    TOP_LEFT = "top_left"
    TOP = "top"
    TOP_RIGHT = "top_right"
    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"
    BOTTOM_LEFT = "bottom_left"
    BOTTOM = "bottom"
    BOTTOM_RIGHT = "bottom_right"
    STRETCH = "stretch"
    """The region is scaled with the screen in each direction on its own."""


@attrs.frozen
class Region:
    """A rectangle in reference pixels.

    `reference` is (width, height) of the screen on which the rectangle was marked.
    """

    x: int = attrs.field(metadata={"min": -MAX_REFERENCE, "max": MAX_REFERENCE})
    y: int = attrs.field(metadata={"min": -MAX_REFERENCE, "max": MAX_REFERENCE})
    width: int = attrs.field(metadata={"min": 1, "max": MAX_REFERENCE})
    height: int = attrs.field(metadata={"min": 1, "max": MAX_REFERENCE})
    anchor: Anchor = Anchor.STRETCH
    reference: tuple[int, int] = attrs.field(default=(720, 1280), metadata={"each_min": 1, "each_max": MAX_REFERENCE})


@attrs.frozen
class Box:
    """A rectangle in whole pixels of one particular image or screen: left and top inside, right and bottom outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Pixels across."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Pixels down."""
        return self.bottom - self.top

    @property
    def center(self) -> tuple[int, int]:
        """The middle pixel, rounded down."""
        return ((self.left + self.right) // 2, (self.top + self.bottom) // 2)

    def clipped(self, width: int, height: int) -> "Box":
        """The part of this box that lies on an image of that size; it may be empty."""
        left, right = max(0, min(self.left, width)), max(0, min(self.right, width))
        top, bottom = max(0, min(self.top, height)), max(0, min(self.bottom, height))
        return Box(left, top, max(left, right), max(top, bottom))


def box_for(region: Region, width: int, height: int) -> Box:
    """Where a reference region lies on a screen or image of `width` x `height` pixels.

    All anchors but `STRETCH` scale by the ratio of the short sides and keep the distance to their edge (or to the
    middle); the box is clipped to the screen.
    """
    reference_width, reference_height = region.reference
    if region.anchor is Anchor.STRETCH:
        scale_x, scale_y = width / reference_width, height / reference_height
        left, top = region.x * scale_x, region.y * scale_y
    else:
        scale_x = scale_y = min(width, height) / min(reference_width, reference_height)
        spare_x = width - reference_width * scale_x
        spare_y = height - reference_height * scale_y
        name = region.anchor.value
        shift_x = 0.0 if name.endswith("left") else spare_x if name.endswith("right") else spare_x / 2
        shift_y = 0.0 if name.startswith("top") else spare_y if name.startswith("bottom") else spare_y / 2
        left, top = region.x * scale_x + shift_x, region.y * scale_y + shift_y
    box = Box(round(left), round(top), round(left + region.width * scale_x), round(top + region.height * scale_y))
    return box.clipped(width, height)
