"""Which web pages a request may come from. Pure."""

from urllib.parse import urlsplit


def is_own_origin(origin: str | None, host: str | None) -> bool:
    """Whether a page of this origin came from the host that the request names: `https://farm:8780` and `farm:8780`.

    A browser always says the origin of a page that sends or opens something; None, and `null`, are nobody's.
    """
    if not origin or not host:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.path == "" and parts.netloc.lower() == host.lower()
