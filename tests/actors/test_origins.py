"""Which pages are the host's own."""

import pytest

from actors.origins import is_own_origin


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8780", "127.0.0.1:8780"),
        ("https://Farm.example", "farm.EXAMPLE"),
        ("http://[::1]:1", "[::1]:1"),
    ],
)
def test_pages_of_the_host(origin: str, host: str) -> None:
    assert is_own_origin(origin, host)


@pytest.mark.parametrize(
    "origin",
    [
        *(None, "", "null", "https://evil.example", "http://127.0.0.1", "http://127.0.0.1:8781", "127.0.0.1:8780"),
        *("http://127.0.0.1:8780/", "http://127.0.0.1:8780.evil.example", "http://ann@127.0.0.1:8780", "http://[::1"),
        *("file://127.0.0.1:8780", "http://evil.example/127.0.0.1:8780"),
    ],
)
def test_pages_of_others(origin: str | None) -> None:
    assert not is_own_origin(origin, "127.0.0.1:8780")


def test_a_request_without_a_host() -> None:
    assert not is_own_origin("http://", "")
    assert not is_own_origin("http://127.0.0.1", None)
