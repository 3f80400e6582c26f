"""The pictures of `errands`."""

from actors.rehearsal.apps import errands_layout as layout
from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.apps.battler_layout import CLOSE_COLOR
from actors.rehearsal.apps.errands_layout import GOAL_COLOR, GOAL_SCREEN, GOAL_TEXT, ROWS, Goal, Screen
from actors.rehearsal.apps.errands_state import ErrandsState, Notice
from actors.rehearsal.apps.painter import BLACK, WHITE, Color, Painter, mixed
from policies.geometry import Box

_PAGE: Color = (236, 240, 246)
_CARD: Color = (255, 255, 255)
_EDGE: Color = (212, 218, 228)
_INK: Color = (44, 52, 66)
_PALE: Color = (128, 138, 154)
_GOAL_OF = {screen: goal for goal, screen in GOAL_SCREEN.items()}
_TITLE = {
    Screen.LOGIN: "Welcome",
    Screen.LOBBY: "Lobby",
    Screen.MAIL: "Mail",
    Screen.SHOP: "Shop",
    Screen.DAILY: "Daily reward",
    Screen.SETTINGS: "Settings",
}
_LETTERS = ("Guild invitation", "Patch notes", "Arena season")
_OFFERS = ("Gem pouch", "Hero skin", "Mystery box")
_PRICES = ("450", "1200", "80")


class ErrandsDrawing:
    """Draws the client at one size and orientation. A screen is drawn once a look, and pasted until it changes."""

    def __init__(self, width: int, height: int) -> None:
        self._painter = Painter(width, height)
        self._size = (width, height)
        self._page: Canvas | None = None
        self._page_key: tuple[object, ...] = ()
        """What the kept page depends on."""

    def draw(self, state: ErrandsState, seconds: float) -> Canvas:
        """The screen for `state` at app time `seconds`; the canvas is reused by the next call."""
        painter = self._painter
        loading = state.loading_left > 0
        key = (state.screen, loading, state.goal, state.row, state.spent, state.score, state.popup)
        if self._page is None or key != self._page_key:
            self._draw_page(state, loading=loading)
            self._page, self._page_key = painter.snapshot(), key
        painter.paste(self._page)
        if loading:
            x, y = painter.width / 2, painter.height * 0.55
            painter.arc(x, y, 64, 14, (seconds * 400.0) % 360.0, (120, 200, 255))
        return painter.canvas

    def _draw_page(self, state: ErrandsState, *, loading: bool) -> None:
        painter = self._painter
        painter.gradient(_PAGE, mixed(_PAGE, (180, 200, 224), 0.5))
        if loading:
            painter.rectangle(Box(0, 0, painter.width, painter.height), layout.LOADING_COLOR)
            painter.text("Loading", painter.width / 2, painter.height * 0.55 + 120 * painter.unit, 36, _PALE)
        self._draw_banner(state)
        if loading:
            return
        self._draw_header(state.screen)
        match state.screen:
            case Screen.LOGIN:
                self._draw_login()
            case Screen.LOBBY:
                self._draw_lobby()
            case Screen.MAIL | Screen.SHOP:
                self._draw_rows(state)
            case Screen.DAILY:
                self._draw_daily(wanted=state.is_wanted(Screen.DAILY))
            case Screen.SETTINGS:
                self._draw_settings(sideways=state.sideways)
        if state.popup is not None:
            painter.darken(0.45, layout.header_box(*self._size).bottom)
            self._draw_popup(state.popup)

    def _draw_banner(self, state: ErrandsState) -> None:
        painter, unit = self._painter, self._painter.unit
        painter.rectangle(layout.banner_box(*self._size), layout.BANNER_COLOR)
        chip = layout.goal_chip_box(*self._size)
        painter.rounded(chip, GOAL_COLOR[state.goal], 14)
        self._draw_icon(GOAL_SCREEN[state.goal], *chip.center, 0.5, WHITE)
        left, middle = chip.right + 20 * unit, chip.center[1]
        painter.text("GOAL", left, middle - 24 * unit, 22, (150, 210, 220), align="left")
        painter.text(GOAL_TEXT[state.goal], left, middle + 14 * unit, 36, WHITE, align="left")
        score = layout.score_box(*self._size)
        painter.text(str(state.score), score.left, score.center[1], 60, WHITE, weight=700, align="left")

    def _draw_header(self, screen: Screen) -> None:
        painter, unit = self._painter, self._painter.unit
        box = layout.header_box(*self._size)
        painter.rectangle(box, layout.HEADER_COLOR[screen])
        painter.text(_TITLE[screen], painter.width / 2, box.center[1], 44, WHITE, weight=700)
        if screen not in {Screen.LOGIN, Screen.LOBBY}:
            x, y = layout.back_box(*self._size).center
            painter.line((x - 22 * unit, y), (x + 24 * unit, y), 8, WHITE)
            painter.line((x - 22 * unit, y), (x - 2 * unit, y - 20 * unit), 8, WHITE)
            painter.line((x - 22 * unit, y), (x - 2 * unit, y + 20 * unit), 8, WHITE)

    def _draw_login(self) -> None:
        painter, unit = self._painter, self._painter.unit
        start = layout.start_box(*self._size)
        x, y = painter.width / 2, (layout.header_box(*self._size).bottom + start.top) / 2
        painter.circle(x, y - 36 * unit, 84, layout.HEADER_COLOR[Screen.LOBBY])
        painter.polygon(x, y - 36 * unit, ((0, -56), (50, 28), (-50, 28)), (255, 214, 96))
        painter.text("Errand Heroes", x, y + 96 * unit, 62, _INK, weight=800)
        self._draw_button(start, layout.START_COLOR, "Start", 56)

    def _draw_lobby(self) -> None:
        painter, unit = self._painter, self._painter.unit
        for screen in layout.LOBBY_SCREENS:
            box = layout.lobby_box(screen, *self._size)
            painter.rounded(box, _CARD, 30)
            x, y = box.center
            painter.circle(x, y - 34 * unit, 78, layout.HEADER_COLOR[screen])
            self._draw_icon(screen, x, y - 34 * unit, 1.0, WHITE)
            painter.text(_TITLE[screen], x, box.bottom - 40 * unit, 38, _INK)

    def _draw_rows(self, state: ErrandsState) -> None:
        painter, unit, screen = self._painter, self._painter.unit, state.screen
        mail = screen is Screen.MAIL
        wanted = state.is_wanted(screen)
        for row in range(ROWS):
            box = layout.row_box(row, *self._size)
            painter.rounded(box, _CARD, 22)
            x, y = box.left + 74 * unit, box.center[1]
            painter.circle(x, y, 46, mixed(layout.HEADER_COLOR[screen], WHITE, 0.75))
            self._draw_icon(screen, x, y, 0.55, layout.HEADER_COLOR[screen])
            this = wanted and row == state.row
            name = ("New message" if mail else "Free gift") if this else (_LETTERS if mail else _OFFERS)[row]
            painter.text(name, x + 66 * unit, y, 32, _INK, align="left")
            button = layout.row_button_box(row, *self._size)
            if this:
                self._draw_button(button, GOAL_COLOR[_GOAL_OF[screen]], "Open" if mail else "FREE", 42)
            else:
                color = layout.SPENT_COLOR if mail else layout.PRICED_COLOR
                self._draw_button(button, color, "Read" if mail else _PRICES[row], 38)

    def _draw_daily(self, *, wanted: bool) -> None:
        painter, unit = self._painter, self._painter.unit
        for day in range(6):
            box = layout.day_box(day, *self._size)
            today = day == 3
            painter.rounded(box, (255, 236, 190) if today else _CARD, 20)
            x, y = box.center
            painter.text(f"Day {day + 1}", x, box.top + 32 * unit, 28, _INK)
            painter.circle(x, y + 18 * unit, 42, (250, 196, 60) if day >= 3 else _EDGE)
            painter.circle(x, y + 18 * unit, 30, (255, 222, 120) if day >= 3 else mixed(_EDGE, WHITE, 0.5))
        color = GOAL_COLOR[Goal.CLAIM_DAILY] if wanted else layout.SPENT_COLOR
        self._draw_button(layout.claim_box(*self._size), color, "Claim" if wanted else "Claimed", 52)

    def _draw_settings(self, *, sideways: bool) -> None:
        painter, unit = self._painter, self._painter.unit
        boxes = [layout.turn_box(sideways=lies, width=self._size[0], height=self._size[1]) for lies in (False, True)]
        middle = (boxes[0].left + boxes[1].right) / 2
        painter.text("Screen", middle, boxes[0].top - 44 * unit, 40, _INK)
        for lies, box in zip((False, True), boxes, strict=True):
            active = lies is sideways
            color = layout.SPENT_COLOR if active else GOAL_COLOR[Goal.TURN_SCREEN]
            self._draw_button(box, color, "Landscape" if lies else "Portrait", 44)
            if active:
                painter.text("in use", box.center[0], box.bottom - 30 * unit, 26, WHITE, weight=400)

    def _draw_button(self, box: Box, color: Color, text: str, size: float) -> None:
        painter = self._painter
        lower = round(8 * painter.unit)
        painter.rounded(Box(box.left, box.top + lower, box.right, box.bottom), mixed(color, BLACK, 0.22), 24)
        painter.rounded(Box(box.left, box.top, box.right, box.bottom - lower), color, 24)
        painter.text(text, box.center[0], box.center[1] - lower / 2, size, WHITE, weight=700)

    def _draw_popup(self, popup: Notice) -> None:
        painter, unit = self._painter, self._painter.unit
        box = layout.popup_box(popup.across, popup.down, *self._size)
        painter.rounded(box, _CARD, 28)
        x, y = box.center
        painter.rounded(Box(box.left, box.top, box.right, box.top + round(92 * unit)), (66, 92, 150), 28)
        painter.text("Notice", x, box.top + 46 * unit, 42, WHITE, weight=700)
        painter.text(popup.text, x, y + 20 * unit, 38, _INK)
        painter.text("Close with the X", x, y + 96 * unit, 28, _PALE, weight=400)
        close = layout.popup_close_box(box, unit)
        painter.circle(*close.center, 32, CLOSE_COLOR)
        painter.cross(close, 7, WHITE)

    def _draw_icon(self, screen: Screen, x: float, y: float, scale: float, color: Color) -> None:
        """The sign of a screen; `scale` 1 is about 84 units across."""
        painter = self._painter

        def shape(*points: tuple[float, float], ink: Color = color) -> None:
            painter.polygon(x, y, [(px * scale, py * scale) for px, py in points], ink)

        back = layout.HEADER_COLOR[screen]
        match screen:
            case Screen.MAIL:
                shape((-42, -28), (42, -28), (0, 6))
                shape((-42, -16), (0, 18), (42, -16), (42, 30), (-42, 30))
            case Screen.SHOP:
                shape((-38, -6), (38, -6), (32, 36), (-32, 36))
                shape((-44, -22), (44, -22), (44, -8), (-44, -8))
                shape((-24, -40), (0, -24), (24, -40), (10, -18), (-10, -18))
            case Screen.DAILY:
                shape((-38, -30), (38, -30), (38, 36), (-38, 36))
                shape((-30, -10), (30, -10), (30, 28), (-30, 28), ink=mixed(back, WHITE, 0.2))
                shape((-18, 8), (-10, 0), (-2, 10), (16, -8), (24, 0), (-2, 24))
            case _:
                for dx, dy in ((44, 9), (9, 44)):
                    shape((-dx, -dy), (dx, -dy), (dx, dy), (-dx, dy))
                for turn in (1, -1):
                    shape((-36, -24 * turn), (-24, -36 * turn), (36, 24 * turn), (24, 36 * turn))
                painter.circle(x, y, 30 * scale, color)
                painter.circle(x, y, 14 * scale, back)
