"""The world of `battler`: who fights, who strikes when, what a click does. No pixels here."""

import attrs
import numpy as np

from actors.rehearsal.apps.battler_layout import BEATEN_BY, ELEMENTS, MAX_PIPS, SLOTS, Element
from actors.rehearsal.apps.clock import TICK_SECONDS

MAX_HEALTH = 100.0
STRONG_HIT, WEAK_HIT = 3, 1  # pips: the right element is worth three of any other
SKILL_COOLDOWN_SECONDS = 0.6
WASTED_COOLDOWN_SECONDS = 1.6  # a skill thrown at an empty place costs more than one that hit
POTION_COOLDOWN_SECONDS = 9.0
POTION_HEALTH = 30.0
CLAIM_HEALTH = 6.0
RESPAWN_SECONDS = 0.5  # an empty place gets its next enemy after this
KILLS_PER_WAVE = 4
FLASH_SECONDS = 0.16
SHUFFLE_SECONDS = (6.0, 10.0)
POPUP_SECONDS = (14.0, 22.0)


@attrs.define
class Enemy:
    """One enemy in one place."""

    element: Element
    pips: int
    """Health left, in notches; never zero while it stands."""
    max_pips: int
    attack_left: float
    """Seconds until it strikes."""
    attack_period: float
    flash_left: float = 0.0
    """Seconds for which it still shows that it was hit."""


@attrs.frozen
class Popup:
    """A reward that covers a part of the screen; (across, down) place it within its area, each 0 to 1."""

    across: float
    down: float
    reward: int
    """Coins, for show."""


def attack_damage_for(wave: int) -> float:
    """Health that one strike costs: grows without bound, so that every player meets its wave."""
    return 8.0 + 0.1 * wave


def attack_period_for(wave: int) -> float:
    """Seconds between an enemy's strikes."""
    return max(2.0, 5.2 - 0.06 * wave)


def pips_for(wave: int) -> int:
    """Health of an enemy of this wave, in notches.

    From wave 5 on an enemy takes two blows, so that waves survived a minute are in proportion to blows a minute;
    from wave 40 on they become tougher again.
    """
    if wave < 5:
        return STRONG_HIT
    return min(MAX_PIPS, STRONG_HIT + 1 + max(0, wave - 30) // 10)


@attrs.define
class BattlerState:
    """Everything that is true in one battle, life after life."""

    _dice: np.random.Generator = attrs.field(alias="_dice")
    health: float = MAX_HEALTH
    wave: int = 1
    """Number of the wave that is fought now, from 1."""
    best: int = 0
    """The score: most waves survived in one life."""
    lives: int = 1
    dead: bool = False
    slots: list[Enemy | None] = attrs.field(factory=lambda: [None] * SLOTS)
    selected: Element | None = None
    cooldowns: dict[Element, float] = attrs.field(factory=lambda: dict.fromkeys(ELEMENTS, 0.0))
    """{skill: seconds until it is ready}"""
    potion_left: float = 0.0
    """Seconds until the potion is ready."""
    popup: Popup | None = None
    hurt_left: float = 0.0
    """Seconds for which the screen's edge still shows that we were hit."""
    wasted: int = 0
    """Skills thrown at empty places, over all lives."""
    events: list[str] = attrs.field(factory=list)
    """Texts for the log since they were last taken."""
    kills: int = 0
    """Enemies of this wave that fell; the wave is survived at `KILLS_PER_WAVE`."""
    _respawn_left: list[float] = attrs.field(factory=lambda: [RESPAWN_SECONDS] * SLOTS, alias="_respawn_left")
    """Seconds until each empty place gets its next enemy."""
    _shuffle_left: float = attrs.field(default=6.0, alias="_shuffle_left")
    _popup_left: float = attrs.field(default=12.0, alias="_popup_left")

    @classmethod
    def new(cls, seed: int) -> "BattlerState":
        """The first life of a game; equal seeds and equal clicks at equal ticks give equal battles."""
        return cls(np.random.default_rng(seed))

    @property
    def survived(self) -> int:
        """Waves survived in this life."""
        return self.wave - 1

    def tick(self) -> None:
        """Let one tick of time pass."""
        if self.dead:
            return
        self.hurt_left = max(0.0, self.hurt_left - TICK_SECONDS)
        self.potion_left = max(0.0, self.potion_left - TICK_SECONDS)
        for element in ELEMENTS:
            self.cooldowns[element] = max(0.0, self.cooldowns[element] - TICK_SECONDS)
        if not self._enemies_act():
            return
        self._fill_places()
        self._shuffle_left -= TICK_SECONDS
        if self._shuffle_left <= 0:
            self._shuffle_left = float(self._dice.uniform(*SHUFFLE_SECONDS))
            self._shuffle()
        if self.popup is None:
            self._popup_left -= TICK_SECONDS
            if self._popup_left <= 0:
                self._open_popup()

    def select(self, element: Element) -> None:
        """Take a skill in hand; one that is not ready stays where it is."""
        if not self.dead and self.cooldowns[element] <= 0:
            self.selected = element

    def strike(self, slot: int) -> None:
        """Throw the skill in hand at a place; at an empty one it is wasted."""
        skill = self.selected
        if self.dead or skill is None:
            return
        self.selected = None
        enemy = self.slots[slot]
        if enemy is None:
            self.cooldowns[skill] = WASTED_COOLDOWN_SECONDS
            self.wasted += 1
            self.events.append(f"miss skill={skill} slot={slot}")
            return
        self.cooldowns[skill] = SKILL_COOLDOWN_SECONDS
        enemy.pips -= STRONG_HIT if skill is BEATEN_BY[enemy.element] else WEAK_HIT
        enemy.flash_left = FLASH_SECONDS
        if enemy.pips <= 0:
            self.slots[slot] = None
            self._respawn_left[slot] = RESPAWN_SECONDS
            self._count_kill()

    def drink(self) -> None:
        """Use the potion, if it is ready."""
        if not self.dead and self.potion_left <= 0:
            self.health = min(MAX_HEALTH, self.health + POTION_HEALTH)
            self.potion_left = POTION_COOLDOWN_SECONDS

    def close_popup(self, *, claim: bool) -> None:
        """Close the pop-up; claiming its reward heals a little."""
        if self.popup is None:
            return
        self.popup = None
        self._popup_left = float(self._dice.uniform(*POPUP_SECONDS))
        if claim:
            self.health = min(MAX_HEALTH, self.health + CLAIM_HEALTH)
        self.events.append(f"popup=closed claim={str(claim).lower()}")

    def revive(self) -> None:
        """Start a new life at the first wave; the score keeps the best of all lives."""
        if not self.dead:
            return
        self.dead = False
        self.lives += 1
        self.health, self.wave = MAX_HEALTH, 1
        self.slots = [None] * SLOTS
        self.selected = None
        self.cooldowns = dict.fromkeys(ELEMENTS, 0.0)
        self.potion_left = self.hurt_left = 0.0
        self.kills = 0
        self._respawn_left = [RESPAWN_SECONDS] * SLOTS
        self.events.append(f"revive life={self.lives}")

    def _enemies_act(self) -> bool:
        """True when we are still alive after it."""
        for enemy in self.slots:
            if enemy is None:
                continue
            enemy.flash_left = max(0.0, enemy.flash_left - TICK_SECONDS)
            enemy.attack_left -= TICK_SECONDS
            if enemy.attack_left <= 0:
                enemy.attack_left += enemy.attack_period
                self.health -= attack_damage_for(self.wave)
                self.hurt_left = FLASH_SECONDS
        if self.health <= 0:
            self.health = self.hurt_left = 0.0
            self.dead = True
            self.popup = None
            self.selected = None
            self.events.append(f"defeat score={self.best} wave={self.wave}")
        return not self.dead

    def _count_kill(self) -> None:
        self.kills += 1
        if self.kills < KILLS_PER_WAVE:
            return
        self.kills = 0
        self.wave += 1
        self.best = max(self.best, self.survived)
        self.events.append(f"score={self.best} wave={self.wave}")

    def _fill_places(self) -> None:
        """Enemies come one by one, so that there is always somebody to fight; two at a time in the first waves."""
        room = (SLOTS - 1 if self.wave <= 2 else SLOTS) - sum(enemy is not None for enemy in self.slots)
        for place in range(SLOTS):
            if self.slots[place] is not None:
                continue
            self._respawn_left[place] -= TICK_SECONDS
            if self._respawn_left[place] <= 0 and room > 0:
                room -= 1
                self.slots[place] = self._newcomer()

    def _newcomer(self) -> Enemy:
        element = ELEMENTS[int(self._dice.integers(len(ELEMENTS)))]
        period, pips = attack_period_for(self.wave), pips_for(self.wave)
        return Enemy(element, pips, pips, period * float(self._dice.uniform(0.7, 1.0)), period)

    def _shuffle(self) -> None:
        """One enemy jumps to another place and whoever stood there takes its own."""
        standing = [place for place, enemy in enumerate(self.slots) if enemy is not None]
        if not standing:
            return
        one = standing[int(self._dice.integers(len(standing)))]
        other = (one + 1 + int(self._dice.integers(SLOTS - 1))) % SLOTS
        self.slots[one], self.slots[other] = self.slots[other], self.slots[one]

    def _open_popup(self) -> None:
        across, down = (float(value) for value in self._dice.uniform(0.0, 1.0, 2))
        self.popup = Popup(across, down, int(self._dice.integers(10, 100)))
        self.events.append("popup=open")
