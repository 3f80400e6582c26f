"""How often one address may fail to log in."""

import ipaddress
from collections import OrderedDict

import attrs

from inference.metering import TokenBucket

MAX_PEERS = 10_000  # are remembered; the longest unheard one is forgotten


@attrs.define(eq=False)
class FailedLogins:
    """Failures by address; IPv6 addresses count by their /64, as one person has so many. Times are of one clock."""

    per_minute: float
    _peers: OrderedDict[str, TokenBucket] = attrs.field(factory=OrderedDict, init=False)

    def retry_after(self, peer: str, now: float) -> float:
        """Seconds until this address may try again; 0 if now."""
        bucket = self._peers.get(_network(peer))
        return 0.0 if bucket is None else bucket.wait_seconds(now)

    def failed(self, peer: str, now: float) -> None:
        """An address has failed to log in."""
        name = _network(peer)
        bucket = self._peers.get(name)
        if bucket is None:
            bucket = self._peers[name] = TokenBucket(self.per_minute)
            if len(self._peers) > MAX_PEERS:
                self._peers.popitem(last=False)
        else:
            self._peers.move_to_end(name)
        bucket.take(1.0, now)


def _network(peer: str) -> str:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
