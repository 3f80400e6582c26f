"""Reads and plays `battler`."""

import attrs

from actors.rehearsal.apps import battler_layout as layout
from actors.rehearsal.apps.battler_layout import (
    BEATEN_BY,
    ELEMENT_COLOR,
    ELEMENTS,
    MAX_PIPS,
    SLOTS,
    Element,
    box_contains,
)
from actors.rehearsal.apps.battler_state import (
    SKILL_COOLDOWN_SECONDS,
    STRONG_HIT,
    WASTED_COOLDOWN_SECONDS,
    WEAK_HIT,
)
from actors.rehearsal.apps.painter import WHITE, mixed
from actors.rehearsal.engine.player.moves import MAX_MOVES, PlayMove, TapAt, WaitFor
from actors.rehearsal.engine.player.picture import Picture
from policies.geometry import Box, Region

STEP_SECONDS = 0.2
"""Assumed time from one action of a plan to the next."""
POTION_BELOW = 0.62
"""Share of health under which the potion is worth its cooldown."""


@attrs.frozen
class EnemySeen:
    """An enemy as the picture shows it."""

    element: Element
    pips: int
    attack_share: float
    """0 to 1: how much of its timer is left."""


@attrs.frozen
class BattleSeen:
    """A battle as the picture shows it."""

    dead: bool
    health: float
    """0 to 1."""
    enemies: tuple[EnemySeen | None, ...]
    waits: dict[Element, float]
    """{skill: seconds until it is ready}"""
    potion_ready: bool
    selected: Element | None
    claim: tuple[int, int] | None
    """The middle of an open pop-up's claim button in picture pixels."""
    popup: Box | None


def read_battle(picture: Picture) -> BattleSeen:
    """Read everything that a plan needs; what a pop-up covers counts as empty."""
    popup = _popup_on(picture)
    # Death closes every pop-up, and the rim of one that is open looks like the revive button.
    revive = _patch(picture.box(layout.REVIVE_REGION), 0.06, 0.5)
    dead = popup is None and picture.has_color(revive, layout.REVIVE_COLOR)
    enemies = tuple(_enemy_at(picture, slot, popup) for slot in range(SLOTS))
    waits = {
        element: _cooldown_on(picture, layout.cooldown_region(layout.skill_region(element)), WASTED_COOLDOWN_SECONDS)
        for element in ELEMENTS
    }
    potion_wait = _cooldown_on(picture, layout.cooldown_region(layout.POTION_REGION), 1.0)
    return BattleSeen(
        dead=dead,
        health=picture.bar_share(picture.box(layout.HEALTH_REGION), layout.HEALTH_COLOR),
        enemies=enemies,
        waits=waits,
        potion_ready=potion_wait <= 0,
        selected=next((e for e in ELEMENTS if _is_selected(picture, e)), None),
        claim=None if popup is None else layout.popup_claim_box(popup, picture.unit).center,
        popup=popup,
    )


def plan_battle(picture: Picture, seen: BattleSeen, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
    """What to do after the scheduled moves: at least one move, at most `MAX_MOVES`."""
    fight = _Fight.after(picture, seen, scheduled)
    return fight.plan()


def _patch(box: Box, across: float, down: float) -> Box:
    """A small patch of a box round the point (across, down), each 0 to 1."""
    x, y = box.left + box.width * across, box.top + box.height * down
    half = max(1.0, 0.04 * min(box.width, box.height))
    return Box(round(x - half), round(y - half), round(x + half), round(y + half))


def _popup_on(picture: Picture) -> Box | None:
    spot = picture.spot(layout.CLOSE_COLOR, 36)
    if spot is None:
        return None
    unit = picture.unit
    right, top = spot[0] + round(40 * unit), spot[1] - round(40 * unit)
    return Box(right - round(layout.POPUP_WIDTH * unit), top, right, top + round(layout.POPUP_HEIGHT * unit))


def _overlap(first: Box, second: Box) -> bool:
    return (
        first.left < second.right
        and second.left < first.right
        and first.top < second.bottom
        and second.top < first.bottom
    )


def _enemy_at(picture: Picture, slot: int, popup: Box | None) -> EnemySeen | None:
    body = picture.box(layout.slot_body_region(slot))
    if popup is not None and _overlap(popup, body):
        return None
    core = Box(body.left + body.width // 5, body.top + body.height // 5, body.right - body.width // 5, body.bottom)
    shares = {
        element: picture.share(core, color) + picture.share(core, mixed(color, WHITE, 0.6))
        for element, color in ELEMENT_COLOR.items()
    }
    element = max(shares, key=lambda e: shares[e])
    if shares[element] < 0.25:
        return None
    pips = sum(
        picture.has_color(_patch(picture.box(layout.pip_region(slot, pip)), 0.5, 0.5), layout.PIP_COLOR)
        for pip in range(MAX_PIPS)
    )
    timer = picture.bar_share(picture.box(layout.slot_timer_region(slot)), layout.TIMER_COLOR)
    return EnemySeen(element, max(1, pips), timer)


def _cooldown_on(picture: Picture, bar_region: Region, full_seconds: float) -> float:
    bar = picture.box(bar_region)
    if picture.has_color(_patch(bar, 0.03, 0.5), layout.READY_COLOR):
        return 0.0
    dim = mixed(layout.READY_COLOR, layout.READY_EMPTY, 0.55)
    return full_seconds * (1.0 - picture.bar_share(bar, dim, 40.0))


def _is_selected(picture: Picture, element: Element) -> bool:
    box = picture.box(layout.skill_region(element))
    edge = max(1, round(5 * picture.unit))
    left = Box(box.left - edge - 1, box.top + box.height // 3, box.left - edge + 1, box.bottom - box.height // 3)
    return picture.has_color(left, layout.SELECTED_COLOR)


@attrs.define
class _Fight:
    """The battle in mind: what was seen, moved on by what will have been done."""

    picture: Picture
    dead: bool
    health: float
    enemies: list[EnemySeen | None]
    ready_at: dict[Element, float]
    potion_ready: bool
    selected: Element | None
    claim: tuple[int, int] | None
    now: float = 0.0

    @classmethod
    def after(cls, picture: Picture, seen: BattleSeen, scheduled: tuple[PlayMove, ...]) -> "_Fight":
        fight = cls(
            picture,
            seen.dead,
            seen.health,
            list(seen.enemies),
            dict(seen.waits),
            seen.potion_ready,
            seen.selected,
            seen.claim,
        )
        for move in scheduled:
            fight._do(move, seen.popup)
        return fight

    def plan(self) -> tuple[PlayMove, ...]:
        if self.dead:
            return (self._tap_box(self.picture.box(layout.REVIVE_REGION)), WaitFor(5))
        moves: list[PlayMove] = []
        if self.claim is not None:
            moves.append(self._tap(*self.claim))
            self.now += STEP_SECONDS
        if self.health < POTION_BELOW and self.potion_ready:
            moves.append(self._tap_box(self.picture.box(layout.POTION_REGION)))
            self.now += STEP_SECONDS
        while len(moves) < MAX_MOVES:
            more = self._next_blow(MAX_MOVES - len(moves))
            if not more:
                break
            moves += more
        return tuple(moves) or (WaitFor(2),)

    def _next_blow(self, room: int) -> list[PlayMove]:
        """Select and strike, or strike with what is in hand; empty when nothing is worth it or there is no room."""
        if self.selected is not None:
            skill, slot = self.selected, self._best_slot(self.selected)
            if slot is None:
                return []
            moves: list[PlayMove] = []
        else:
            choice = self._best_choice()
            if choice is None:
                return []
            skill, slot = choice
            wait = self.ready_at[skill] - self.now
            moves = [WaitFor(round(wait * 10 + 0.4))] if wait > 0.05 else []
            if len(moves) + 2 > room:
                return []
            self.now += max(0.0, wait)
            moves.append(self._tap_box(self.picture.box(layout.skill_region(skill))))
            self.now += STEP_SECONDS
        moves.append(self._tap_box(self.picture.box(layout.slot_body_region(slot))))
        self._strike(skill, slot)
        self.now += STEP_SECONDS
        return moves

    def _best_choice(self) -> tuple[Element, int] | None:
        """The (skill, place) that is ready soonest and right; the most urgent enemy among equals."""
        best: tuple[tuple[float, float], Element, int] | None = None
        for slot, enemy in enumerate(self.enemies):
            if enemy is None:
                continue
            for skill in ELEMENTS:
                right = skill is BEATEN_BY[enemy.element] or enemy.pips <= WEAK_HIT
                wait = max(0.0, self.ready_at[skill] - self.now)
                cost = (round(wait, 2) + (0.0 if right else 0.8), enemy.attack_share)
                if best is None or cost < best[0]:
                    best = (cost, skill, slot)
        return None if best is None else (best[1], best[2])

    def _best_slot(self, skill: Element) -> int | None:
        """Where the skill in hand does the most."""
        standing = [(slot, enemy) for slot, enemy in enumerate(self.enemies) if enemy is not None]
        if not standing:
            return None
        return min(standing, key=lambda pair: (skill is not BEATEN_BY[pair[1].element], pair[1].attack_share))[0]

    def _strike(self, skill: Element, slot: int) -> None:
        enemy = self.enemies[slot]
        self.selected = None
        if enemy is None:
            self.ready_at[skill] = self.now + WASTED_COOLDOWN_SECONDS
            return
        self.ready_at[skill] = self.now + SKILL_COOLDOWN_SECONDS
        left = enemy.pips - (STRONG_HIT if skill is BEATEN_BY[enemy.element] else WEAK_HIT)
        self.enemies[slot] = attrs.evolve(enemy, pips=left) if left > 0 else None

    def _do(self, move: PlayMove, popup: Box | None) -> None:
        """Let a scheduled move happen in mind."""
        if isinstance(move, WaitFor):
            self.now += move.tenths / 10
            return
        self.now += STEP_SECONDS
        if not isinstance(move, TapAt):
            return
        x, y = self.picture.pixel(move.x, move.y)
        if popup is not None and self.claim is not None and box_contains(popup, x, y):
            self.claim = None
            return
        for element in ELEMENTS:
            if self._hits(layout.skill_region(element), x, y) and self.ready_at[element] <= self.now:
                self.selected = element
        if self._hits(layout.POTION_REGION, x, y):
            self.potion_ready = False
        for slot in range(SLOTS):
            if self.selected is not None and self._hits(layout.slot_region(slot), x, y):
                self._strike(self.selected, slot)
        if self.dead and self._hits(layout.REVIVE_REGION, x, y):
            self.dead = False
            self.enemies = [None] * SLOTS

    def _hits(self, region: Region, x: int, y: int) -> bool:
        return box_contains(self.picture.box(region), x, y)

    def _tap_box(self, box: Box) -> TapAt:
        return self._tap(*box.center)

    def _tap(self, x: int, y: int) -> TapAt:
        return TapAt(*self.picture.per_mille(x, y))
