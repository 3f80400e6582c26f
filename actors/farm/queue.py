"""What runs next, and on which phones. Pure: times are arguments, in seconds since 1970.

Tenants share phones by weight: whoever used the fewest phone seconds per weight of late comes first, and inside a
tenant the highest priority, which grows while a run waits. Whoever can start does, past those that cannot; but a run
that was passed for `patience_seconds` claims the phones that it could use as they become free, and runs of its own
tenant do not pass it any more. A tenant that waits uses nothing, so it comes first after a while, its claim with it: no
run waits for ever for phones that others keep taking one by one, and no tenant for another one's thousand runs.
"""

from collections.abc import Mapping, Sequence

import attrs

from runtime.ids import TenantId

MIN_CHARGED_SECONDS = 60.0  # a phone that a run was given counts for so long: runs that fail at once are not free


@attrs.frozen
class Waiting:
    """A run in the queue that may start now, as far as its times go."""

    run: str
    tenant: TenantId
    phones: int
    labels: frozenset[str]
    priority: int
    ready_at: float
    """Since when it could have started."""
    number: int
    """Submitted before another if smaller."""


@attrs.frozen
class FarmPhone:
    """A phone of the farm."""

    id: str
    """Its address, or the name of a simulated one."""
    labels: frozenset[str] = frozenset()
    tenants: frozenset[TenantId] = frozenset()
    """Who may use it; empty: everybody."""

    def suits(self, run: Waiting) -> bool:
        """The run may use it."""
        return run.labels <= self.labels and (not self.tenants or run.tenant in self.tenants)


@attrs.frozen
class Share:
    """A tenant's part of the farm."""

    weight: float = 1.0
    used_seconds: float = 0.0
    """Phone seconds of late, those of running attempts included."""

    @property
    def level(self) -> float:
        """What tenants are compared by."""
        return self.used_seconds / self.weight


@attrs.frozen
class QueueSettings:
    """How long is waited."""

    patience_seconds: float = 600.0
    """A run that was passed for so long claims phones."""
    ageing_seconds: float = 600.0
    """A run's priority grows by one for each such time that it waits."""


@attrs.frozen
class Start:
    """Start this run on these phones."""

    run: str
    phones: tuple[str, ...]


@attrs.frozen
class Decision:
    """What to start now, and why everything else is not."""

    starts: tuple[Start, ...]
    reasons: Mapping[str, str]
    """Run → why it waits."""
    claimed: Mapping[str, str]
    """Phone → the run that it is kept free for."""


@attrs.define
class _Round:
    free: list[FarmPhone]
    slots: int
    starts: list[Start] = attrs.field(factory=list)
    reasons: dict[str, str] = attrs.field(factory=dict)
    claimed: dict[str, str] = attrs.field(factory=dict)

    def start(self, run: Waiting) -> bool:
        """Start the run if there is room for it."""
        if self.slots < 1:
            self.reasons[run.run] = "as many runs play as may play at a time"
            return False
        usable = [phone for phone in self.free if phone.suits(run)]
        if len(usable) < run.phones:
            self.reasons[run.run] = f"it needs {run.phones} phones; {len(usable)} of those it may use are free"
            return False
        taken = tuple(phone.id for phone in usable[: run.phones])
        self.free = [phone for phone in self.free if phone.id not in taken]
        self.slots -= 1
        self.starts.append(Start(run.run, taken))
        return True

    def claim(self, run: Waiting) -> None:
        """Keep what it could use for it."""
        kept = [phone.id for phone in self.free if phone.suits(run)][: run.phones]
        self.claimed.update(dict.fromkeys(kept, run.run))
        self.free = [phone for phone in self.free if phone.id not in kept]


def decide(
    waiting: Sequence[Waiting],
    phones: Sequence[FarmPhone],
    *,
    unusable: frozenset[str],
    paused: frozenset[str],
    free_runs: int,
    shares: Mapping[TenantId, Share],
    now: float,
    settings: QueueSettings | None = None,
) -> Decision:
    """Choose.

    Args:
        waiting: Runs that may start; held ones and those of a later time are left out.
        phones: All of the farm.
        unusable: Phones that are reserved.
        paused: Phones that are given to nobody.
        free_runs: How many more may play at a time.
        shares: Of the tenants; one that is not named has used nothing, with weight 1.
        now: The time.
        settings: Patience and ageing.
    """
    settings = settings or QueueSettings()
    open_phones = [phone for phone in phones if phone.id not in paused]
    # the least special phones first, so that those with rare labels stay for whoever needs them
    ordered = sorted(open_phones, key=lambda phone: (len(phone.labels), not phone.tenants, phone.id))
    this = _Round([phone for phone in ordered if phone.id not in unusable], max(0, free_runs))
    lines: dict[TenantId, list[Waiting]] = {}
    counts: dict[
        tuple[TenantId, frozenset[str]], int
    ] = {}  # of phones that suit: most runs ask for the same few things
    for run in sorted(waiting, key=lambda one: (-_urgency(one, settings, now), one.ready_at, one.number)):
        wants = (run.tenant, run.labels)
        if wants not in counts:
            counts[wants] = sum(phone.suits(run) for phone in open_phones)
        suited = counts[wants]
        if suited < run.phones:
            every = sum(phone.suits(run) for phone in phones)
            this.reasons[run.run] = _lack(run, suited, every)
        else:
            lines.setdefault(run.tenant, []).append(run)
    levels = {tenant: shares.get(tenant, Share()) for tenant in lines}
    while lines:
        tenant = min(lines, key=lambda name: (levels[name].level, name))
        run = lines[tenant].pop(0)
        if this.start(run):
            levels[tenant] = _charged(levels[tenant], run)
        elif now - run.ready_at > settings.patience_seconds:
            this.claim(run)
            for later in lines[tenant]:
                this.reasons[later.run] = f"{run.run} of the same tenant has waited for too long and is first"
            lines[tenant] = []
        if not lines[tenant]:
            del lines[tenant]
    return Decision(tuple(this.starts), this.reasons, this.claimed)


def _urgency(run: Waiting, settings: QueueSettings, now: float) -> float:
    return run.priority + max(0.0, now - run.ready_at) // settings.ageing_seconds


def _lack(run: Waiting, suited: int, every: int) -> str:
    labels = f" with {', '.join(sorted(run.labels))}" if run.labels else ""
    if every >= run.phones:
        return f"it needs {run.phones} phones{labels}; {every - suited} of the farm's {every} are paused"
    return f"it needs {run.phones} phones{labels}; the farm has {every} for this tenant"


def _charged(share: Share, run: Waiting) -> Share:
    return attrs.evolve(share, used_seconds=share.used_seconds + run.phones * MIN_CHARGED_SECONDS)
