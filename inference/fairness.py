"""Who is next at an engine: tenants by deficit round robin on tokens, and inside a tenant the earliest deadline.

Requests are the wrong unit, as their cost spans orders of magnitude. A tenant is charged tokens over its weight: prompt
tokens that no cache has, and twice its output tokens; on estimate when a request leaves the queue, and settled by
what the engine counted. The ring of tenants is served up to a level; when nobody below it waits, the level rises by a
quantum. So a tenant's deficit is the level less its charge, and large requests are carried over rounds.

A tenant that was away is lifted to the least charged of those who wait, as in VTC (Sheng et al., OSDI 2024): being
away saves nothing up. As with VTC, the charges of two tenants who both wait all the time, over their weights, differ by
no more than 2 x (quantum + U), where U is the most that one tenant's requests at the engine can be charged together.
"""

import heapq
import itertools
from collections import OrderedDict, deque

import attrs

from runtime.ids import TenantId

OUTPUT_WEIGHT = 2.0  # an output token costs about twice an input token (VTC's w_q / w_p, and most price lists)
QUANTUM_TOKENS = 512.0  # below the cost of most requests: what is served in a row stays short
ACTIVE_SECONDS = 10.0  # longer than a bot thinks: a seat is kept free for whoever asked within it
RESERVED_SHARE = 8  # one seat in eight is not given to a tenant that has all others, while somebody else is about
MAX_ACCOUNTS = 1000  # tenants that are remembered; an idle one costs nothing but its lift when it is forgotten

TenantKey = tuple[str, TenantId]
"""(workload, tenant)."""


@attrs.define(eq=False)
class Ticket:
    """One request's place in the queue."""

    tenant: TenantKey
    deadline: float
    cost: float
    """Tokens, weighted; an estimate."""
    left: bool = False
    """It was taken, or gave up; its place in the heap is skipped."""


@attrs.define(eq=False)
class _Account:
    weight: float = 1.0
    charged: float = 0.0  # tokens over weight
    heap: list[tuple[float, int, Ticket]] = attrs.field(factory=list)
    waiting: int = 0
    in_flight: int = 0

    def head(self) -> Ticket | None:
        while self.heap and self.heap[0][2].left:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None


@attrs.define(eq=False)
class FairQueue:
    """The queue in front of one engine. Tenants are few; nothing here looks at all who wait."""

    weights: dict[TenantId, float] = attrs.field(factory=dict)
    """Of tenants that have another than 1."""
    quantum: float = QUANTUM_TOKENS
    waiting: int = attrs.field(default=0, init=False)
    _accounts: OrderedDict[TenantKey, _Account] = attrs.field(factory=OrderedDict, init=False)
    _ring: deque[TenantKey] = attrs.field(factory=deque, init=False)  # those who wait
    _recent: OrderedDict[TenantKey, float] = attrs.field(factory=OrderedDict, init=False)  # {tenant: last seen}
    _level: float = attrs.field(default=0.0, init=False)
    _last: TenantKey | None = attrs.field(default=None, init=False)  # the tenant whose queue became empty last
    _order: "itertools.count[int]" = attrs.field(factory=itertools.count, init=False)

    def push(self, tenant: TenantKey, deadline: float, cost: float, now: float) -> Ticket:
        """Queue a request."""
        account = self._account(tenant)
        if account.waiting == 0:
            self._lift(tenant, account)
            if tenant not in self._ring:
                self._ring.append(tenant)
        ticket = Ticket(tenant, deadline, cost)
        heapq.heappush(account.heap, (deadline, next(self._order), ticket))
        account.waiting += 1
        self.waiting += 1
        self._see(tenant, now)
        return ticket

    def pop(self, limit: int, now: float) -> Ticket | None:
        """Take the next request out and charge for it; None if nobody who waits may have a seat.

        Args:
            limit: seats at the engine, taken ones too.
            now: run clock.
        """
        while True:
            least: float | None = None
            for _ in range(len(self._ring)):
                tenant = self._ring[0]
                account = self._accounts[tenant]
                ticket = account.head()
                if ticket is None:
                    self._ring.popleft()
                    continue
                if self.may_hold(tenant, limit, now):
                    if account.charged < self._level:
                        self._take(ticket, now)
                        return ticket
                    least = account.charged if least is None else min(least, account.charged)
                self._ring.rotate(-1)
            if least is None:
                return None
            # As many rounds at once as the least charged needs: a 100k-token prompt would be 200 of them.
            self._level += self.quantum * ((least - self._level) // self.quantum + 1)

    def admit(self, tenant: TenantKey, cost: float, now: float) -> None:
        """Charge for a request that found a free seat and nobody waiting."""
        account = self._account(tenant)
        self._lift(tenant, account)
        account.charged += cost / account.weight
        account.in_flight += 1
        self._last = tenant
        self._see(tenant, now)

    def may_hold(self, tenant: TenantKey, limit: int, now: float) -> bool:
        """One more seat for this tenant leaves some for others who were here lately."""
        account = self._accounts.get(tenant)
        if account is None or limit < 2 or account.in_flight < limit - max(1, limit // RESERVED_SHARE):
            return True
        return not any(
            now - seen <= ACTIVE_SECONDS
            for other, seen in itertools.islice(reversed(self._recent.items()), 2)
            if other != tenant
        )

    def ended(self, tenant: TenantKey, estimate: float, actual: float, now: float) -> None:
        """A request that was taken or admitted has given its seat back; its charge becomes what it really cost."""
        account = self._accounts[tenant]
        account.in_flight -= 1
        account.charged += (actual - estimate) / account.weight
        self._see(tenant, now)

    def leave(self, ticket: Ticket) -> None:
        """The request gave up waiting; nothing happens if it was taken."""
        if ticket.left:
            return
        account = self._accounts[ticket.tenant]
        self._remove(ticket, account)
        if len(account.heap) > 2 * account.waiting + 16:  # many gave up while no seat became free
            account.heap = [entry for entry in account.heap if not entry[2].left]
            heapq.heapify(account.heap)

    def clear(self) -> list[Ticket]:
        """Everybody who waits, sent away."""
        tickets = [entry[2] for account in self._accounts.values() for entry in account.heap if not entry[2].left]
        for ticket in tickets:
            self._remove(ticket, self._accounts[ticket.tenant])
        return tickets

    def charged(self, tenant: TenantKey) -> float:
        """Tokens over weight that the tenant was charged, lifts included."""
        account = self._accounts.get(tenant)
        return 0.0 if account is None else account.charged

    def waiting_of(self, tenant: TenantKey) -> int:
        """Requests of the tenant that wait."""
        account = self._accounts.get(tenant)
        return 0 if account is None else account.waiting

    def _take(self, ticket: Ticket, now: float) -> None:
        account = self._accounts[ticket.tenant]
        self._remove(ticket, account)
        account.charged += ticket.cost / account.weight
        account.in_flight += 1
        if account.waiting == 0:
            self._last = ticket.tenant
        if account.charged >= self._level:
            self._ring.rotate(-1)  # its turn is over
        self._see(ticket.tenant, now)

    def _remove(self, ticket: Ticket, account: _Account) -> None:
        ticket.left = True
        account.waiting -= 1
        self.waiting -= 1

    def _lift(self, tenant: TenantKey, account: _Account) -> None:
        others = [other.charged for key in self._ring if key != tenant and (other := self._accounts[key]).waiting > 0]
        if not others and self._last is not None and self._last in self._accounts:
            others = [self._accounts[self._last].charged]
        account.charged = max([account.charged, *([min(others)] if others else [])])

    def _see(self, tenant: TenantKey, now: float) -> None:
        self._recent[tenant] = now
        self._recent.move_to_end(tenant)

    def _account(self, tenant: TenantKey) -> _Account:
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account(weight=self.weights.get(tenant[1], 1.0))
            if len(self._accounts) > MAX_ACCOUNTS:
                self._forget_idle(tenant)
        return account

    def _forget_idle(self, but: TenantKey) -> None:
        for tenant, account in self._accounts.items():
            if tenant != but and account.in_flight == 0 and account.waiting == 0:
                if tenant in self._ring:
                    self._ring.remove(tenant)
                self._recent.pop(tenant, None)
                del self._accounts[tenant]
                return
