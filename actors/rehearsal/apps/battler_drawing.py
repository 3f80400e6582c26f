"""The pictures of `battler`."""

import cv2
import numpy as np

from actors.rehearsal.apps import battler_layout as layout
from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.apps.battler_layout import ELEMENT_COLOR, ELEMENTS, SLOTS, Element
from actors.rehearsal.apps.battler_state import (
    MAX_HEALTH,
    POTION_COOLDOWN_SECONDS,
    WASTED_COOLDOWN_SECONDS,
    BattlerState,
    Enemy,
    Popup,
)
from actors.rehearsal.apps.painter import BLACK, WHITE, Color, Painter, mixed
from policies.geometry import Box, Region, box_for

_SKY: tuple[Color, Color] = ((38, 32, 72), (104, 74, 120))
_GROUND: Color = (62, 48, 84)
_SHADOW: Color = (48, 36, 68)
_BUTTON: Color = (34, 30, 58)
_HURT: Color = (210, 40, 60)
_INK: Color = (70, 50, 40)

_FLAME = ((0, -34), (10, -16), (22, -6), (26, 12), (16, 28), (0, 34), (-16, 28), (-26, 12), (-18, -4), (-8, -8))
_DROP = ((0, -36), (12, -14), (23, 6), (22, 20), (12, 31), (0, 35), (-12, 31), (-22, 20), (-23, 6), (-12, -14))
_LEAF = ((-28, 28), (-24, 0), (-6, -20), (28, -30), (24, 4), (6, 24), (-16, 24))
_SYMBOL = {Element.FIRE: _FLAME, Element.WATER: _DROP, Element.LEAF: _LEAF}


class BattlerDrawing:
    """Draws one battle at one size. What never changes is drawn once and pasted."""

    def __init__(self, width: int, height: int) -> None:
        self._painter = Painter(width, height)
        self._background = self._draw_background()
        self._sprites: dict[tuple[Element, bool], tuple[Canvas, Canvas]] = {}
        """{(element, flashing): the body's square and its silhouette, ready to paste}"""

    def draw(self, state: BattlerState) -> Canvas:
        """The screen for `state`; the canvas is reused by the next call."""
        painter = self._painter
        painter.paste(self._background)
        for slot, enemy in enumerate(state.slots):
            if enemy is not None:
                self._draw_enemy(slot, enemy)
        self._draw_buttons(state)
        self._draw_head(state)
        if state.hurt_left > 0:
            painter.frame(Box(14, 14, painter.width - 14, painter.height - 14), _HURT, 14, 4)
        if state.popup is not None:
            self._draw_popup(state.popup)
        if state.dead:
            self._draw_defeat(state)
        return painter.canvas

    def _box(self, region: Region) -> Box:
        return box_for(region, self._painter.width, self._painter.height)

    def _draw_background(self) -> Canvas:
        painter = self._painter
        painter.gradient(*_SKY)
        width, unit = painter.width, painter.unit
        ground = self._box(layout.slot_region(1)).bottom - round(90 * unit)
        painter.ellipse(width / 2, ground, 430, 120, _GROUND)
        for slot in range(SLOTS):
            body = self._box(layout.slot_body_region(slot))
            painter.ellipse(body.center[0], body.bottom - 6 * unit, 84, 20, _SHADOW)
        painter.rectangle(self._box(layout.HUD_REGION), layout.HUD_COLOR)
        label = self._box(layout.SCORE_REGION)
        painter.text("WAVES", label.left, label.top - 14 * unit, 22, (170, 160, 210), align="left")
        bar = self._box(layout.HEALTH_REGION)
        painter.rounded(bar, layout.HEALTH_EMPTY, 10)
        for element in ELEMENTS:
            button = self._box(layout.skill_region(element))
            painter.rounded(button, _BUTTON, 26)
            x, y = button.center
            painter.circle(x, y, 66, mixed(ELEMENT_COLOR[element], BLACK, 0.25))
            painter.circle(x, y, 60, ELEMENT_COLOR[element])
            painter.polygon(x, y, _SYMBOL[element], WHITE)
        self._draw_potion(self._box(layout.POTION_REGION))
        return painter.snapshot()

    def _draw_potion(self, box: Box) -> None:
        painter = self._painter
        painter.rounded(box, _BUTTON, 26)
        x, y = box.center
        unit = painter.unit
        painter.circle(x, y + 14 * unit, 42, (226, 216, 240))
        painter.circle(x, y + 14 * unit, 36, layout.POTION_COLOR)
        painter.rectangle(
            Box(x - round(13 * unit), y - round(56 * unit), x + round(13 * unit), y - round(20 * unit)),
            (226, 216, 240),
        )
        for across, down in ((20, 6), (6, 20)):
            painter.rectangle(
                Box(
                    x - round(across * unit),
                    y + round((14 - down) * unit),
                    x + round(across * unit),
                    y + round((14 + down) * unit),
                ),
                WHITE,
            )

    def _draw_enemy(self, slot: int, enemy: Enemy) -> None:
        painter = self._painter
        timer = self._box(layout.slot_timer_region(slot))
        painter.rounded(timer, layout.TIMER_EMPTY, 6)
        share = min(1.0, max(0.0, enemy.attack_left / enemy.attack_period))
        painter.rectangle(
            Box(timer.left, timer.top, timer.left + round(timer.width * share), timer.bottom), layout.TIMER_COLOR
        )
        body = self._box(layout.slot_body_region(slot))
        self._paste_body(body, enemy.element, flashing=enemy.flash_left > 0)
        for pip in range(enemy.max_pips):
            color = layout.PIP_COLOR if pip < enemy.pips else layout.PIP_EMPTY
            painter.rectangle(self._box(layout.pip_region(slot, pip)), color)

    def _paste_body(self, body: Box, element: Element, *, flashing: bool) -> None:
        """A slime: drawn once a kind, then pasted by its silhouette."""
        key = (element, flashing)
        if key not in self._sprites:
            side = round(layout.slot_body_region(0).width * self._painter.unit)
            self._sprites[key] = self._body_sprite(side, element, flashing=flashing)
        sprite, silhouette = self._sprites[key]
        half = sprite.shape[0] // 2  # boxes of different places may differ by a pixel from rounding
        left, top = body.center[0] - half, body.center[1] - half
        view = self._painter.canvas[top : top + sprite.shape[0], left : left + sprite.shape[1]]
        cv2.copyTo(sprite, silhouette, view)

    def _body_sprite(self, side: int, element: Element, *, flashing: bool) -> tuple[Canvas, Canvas]:
        """The body's colours, and a mask of the pixels that belong to it."""
        base = mixed(ELEMENT_COLOR[element], WHITE, 0.6) if flashing else ELEMENT_COLOR[element]
        brush, mask = Painter(side, side), Painter(side, side)
        brush.unit = mask.unit = self._painter.unit
        unit, middle = brush.unit, side / 2
        brush.gradient(mixed(base, WHITE, 0.18), mixed(base, BLACK, 0.18))
        brush.circle(middle, middle + 8 * unit, 70, base)
        brush.circle(middle - 30 * unit, middle - 44 * unit, 12, mixed(base, WHITE, 0.7))
        for eye in (-26, 26):
            brush.circle(middle + eye * unit, middle - 26 * unit, 13, WHITE)
            brush.circle(middle + (eye + 3) * unit, middle - 24 * unit, 7, (30, 24, 40))
        brush.polygon(middle, middle + 34 * unit, _SYMBOL[element], WHITE)
        mask.ellipse(middle, middle + 4 * unit, 82, 78, WHITE)
        mask.ellipse(middle, middle + 44 * unit, 84, 38, WHITE)
        silhouette = np.where(mask.canvas[:, :, 0] > 127, 255, 0).astype(np.uint8)
        return brush.canvas, silhouette

    def _draw_buttons(self, state: BattlerState) -> None:
        painter = self._painter
        for element in ELEMENTS:
            region = layout.skill_region(element)
            # The bar's full length is the longest cooldown, so its length tells the seconds that are left.
            self._draw_cooldown(region, state.cooldowns[element] / WASTED_COOLDOWN_SECONDS)
            if state.selected is element:
                painter.frame(self._box(region), layout.SELECTED_COLOR, 9, 30)
        self._draw_cooldown(layout.POTION_REGION, state.potion_left / POTION_COOLDOWN_SECONDS)

    def _draw_cooldown(self, button: Region, left_share: float) -> None:
        painter = self._painter
        bar = self._box(layout.cooldown_region(button))
        painter.rectangle(bar, layout.READY_EMPTY)
        filled = round(bar.width * (1.0 - min(1.0, left_share)))
        color = layout.READY_COLOR if left_share <= 0 else mixed(layout.READY_COLOR, layout.READY_EMPTY, 0.55)
        painter.rectangle(Box(bar.left, bar.top, bar.left + filled, bar.bottom), color)

    def _draw_head(self, state: BattlerState) -> None:
        painter = self._painter
        unit = painter.unit
        score = self._box(layout.SCORE_REGION)
        painter.text(str(state.best), score.left, score.center[1], 60, WHITE, weight=700, align="left")
        painter.text(
            f"WAVE {state.wave}", painter.width - 24 * unit, score.center[1], 44, (255, 214, 120), align="right"
        )
        bar = self._box(layout.HEALTH_REGION)
        filled = round(bar.width * state.health / MAX_HEALTH)
        painter.rectangle(Box(bar.left, bar.top, bar.left + filled, bar.bottom), layout.HEALTH_COLOR)

    def _draw_popup(self, popup: Popup) -> None:
        painter = self._painter
        box = layout.popup_box(popup.across, popup.down, painter.width, painter.height)
        unit, x = painter.unit, box.center[0]
        painter.rounded(box, layout.POPUP_PANEL, 24)
        painter.frame(box, layout.POPUP_HEAD, 6, 26)
        painter.text("Reward!", x, box.top + 48 * unit, 40, _INK, weight=800)
        painter.circle(x - 46 * unit, box.top + 122 * unit, 30, (250, 190, 40))
        painter.circle(x - 46 * unit, box.top + 122 * unit, 22, (255, 216, 96))
        painter.text(f"x {popup.reward}", x, box.top + 122 * unit, 42, _INK, align="left")
        close = layout.popup_close_box(box, unit)
        painter.circle(*close.center, 30, layout.CLOSE_COLOR)
        painter.cross(close, 7, WHITE)
        claim = layout.popup_claim_box(box, unit)
        painter.rounded(claim, layout.CLAIM_COLOR, 20)
        painter.text("Claim", *claim.center, 38, WHITE, weight=700)

    def _draw_defeat(self, state: BattlerState) -> None:
        painter = self._painter
        painter.darken(0.6, self._box(layout.HUD_REGION).bottom)  # the score stays readable
        unit, x = painter.unit, painter.width / 2
        revive = self._box(layout.REVIVE_REGION)
        painter.text("DEFEAT", x, revive.top - 300 * unit, 104, (255, 104, 104), weight=800)
        painter.text(f"Fell in wave {state.wave}", x, revive.top - 190 * unit, 46, WHITE)
        painter.text(f"Best: {state.best} waves", x, revive.top - 120 * unit, 46, (255, 214, 120))
        painter.rounded(revive, layout.REVIVE_COLOR, 28)
        painter.text("Revive", *revive.center, 52, _INK, weight=800)
