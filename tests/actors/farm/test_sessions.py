"""Sessions in browsers: how long they last, how many there are, and what ends them."""

import http.client
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from starlette.requests import HTTPConnection

from actors.farm import sessions as module
from actors.farm.callers import Known, Turned
from actors.farm.sessions import COOKIE, IDLE_SECONDS, LIFE_SECONDS, USER_SESSIONS, Sessions, TooManySessions
from actors.token_store import Role, TokenRecord, create_token, read_tokens, revoke_token
from runtime.ids import TenantId
from tests.kit.farm import ServedFarm, farm_config, open_served, write_scenario

ANN = TokenRecord("0" * 12, "ann", TenantId("games"), (Role.VIEWER,), "0" * 64, "2027-01-01T00:00:00+00:00")


def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
    sessions = Sessions()
    name, session = sessions.open(ANN, 1000.0)
    found = [sessions.find(name, 1000.0 + hours * 3600.0) is session for hours in (1.9, 3.8, 5.7, 7.6, 9.5, 11.4)]

    assert all(found), "each look moves its end"
    assert session.expires_at == 1000.0 + LIFE_SECONDS
    assert sessions.find(name, 1000.0 + LIFE_SECONDS) is None
    idle, _ = sessions.open(ANN, 1000.0)
    assert sessions.find(idle, 1000.0 + IDLE_SECONDS) is None
    assert len(sessions) == 0
    seen, _ = sessions.open(ANN, 1000.0)
    assert sessions.find(seen, 1000.0 + IDLE_SECONDS - 1, use=False) is not None
    assert sessions.find(seen, 1000.0 + IDLE_SECONDS) is None, "a look that is no use does not move it"


def test_a_user_has_so_many_and_the_longest_idle_one_gives_way() -> None:
    sessions = Sessions()
    names = [sessions.open(ANN, float(number))[0] for number in range(USER_SESSIONS)]
    sessions.find(names[0], 100.0)
    other = attrs.evolve(ANN, tenant=TenantId("other"))
    theirs, _ = sessions.open(other, 101.0)
    sessions.open(ANN, 102.0)

    assert sessions.find(names[0], 103.0) is not None
    assert sessions.find(names[1], 103.0) is None
    assert sessions.find(theirs, 103.0) is not None


def test_there_is_an_end_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 3)
    sessions = Sessions()
    for number in range(3):
        sessions.open(attrs.evolve(ANN, user=f"user{number}"), 0.0)
    with pytest.raises(TooManySessions):
        sessions.open(ANN, 1.0)
    sessions.open(ANN, IDLE_SECONDS + 1)

    assert len(sessions) == 1, "those that are over make room"


def ask(served: ServedFarm, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
    """(status, answer, its cookie)."""
    host = served.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        given = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, given, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None, response.headers.get("set-cookie", "")
    finally:
        connection.close()


@attrs.frozen
class Browser:
    """Asks with a cookie, as a page of the farm."""

    served: ServedFarm
    cookie: str

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
        all_headers = {"cookie": self.cookie, "origin": self.served.url, **headers}
        return await trio.to_thread.run_sync(partial(ask, self.served, method, path, body, **all_headers))


async def logged_in(served: ServedFarm, who: str = "games.operator") -> Browser:
    browser = Browser(served, "")
    status, _, cookie = await browser.ask("POST", "/api/v1/session", {"token": served.tokens[who].reveal()})
    assert status == 200
    return Browser(served, cookie.partition(";")[0])


async def test_a_browser_logs_in_works_and_logs_out(tmp_path: Path) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        token = {"token": served.tokens["games.operator"].reveal()}
        status, who, cookie = await Browser(served, "").ask("POST", "/api/v1/session", token)
        browser = Browser(served, cookie.partition(";")[0])
        shown = await browser.ask("GET", "/api/v1/session")
        made = await browser.ask("POST", "/api/v1/runs", {"scenario": "good"})
        ended = await browser.ask("DELETE", "/api/v1/session")
        after = await browser.ask("GET", "/api/v1/session")
        actions = (await served.call("games.admin", "GET", "/api/v1/audit")).json["actions"]

        assert status == 200
        assert {one.strip() for one in cookie.split(";")[1:]} >= {"HttpOnly", "Path=/", "SameSite=strict"}
        assert "Secure" not in cookie, "this farm has no TLS, and a browser would drop it"
        assert (who["user"], who["tenant"], who["roles"]) == ("operator-games", "games", ["operator"])
        assert shown[:2] == (200, who) or shown[1]["expires_at"] >= who["expires_at"]
        assert made[0] == 201
        assert (ended[:2], after[0]) == ((200, {"ended": True}), 401)
        assert [one["action"] for one in actions] == ["submit", "log in"]
        assert "corral_" not in json.dumps([who, shown[1], actions])


async def test_a_proxy_with_tls_gets_a_cookie_for_tls(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        token = {"token": served.tokens["games.viewer"].reveal()}
        origin = served.url.replace("http", "https")
        _, _, cookie = await Browser(served, "").ask("POST", "/api/v1/session", token, origin=origin)

        assert "Secure" in cookie


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://127.0.0.1"])
async def test_other_pages_do_nothing_with_a_cookie(tmp_path: Path, origin: str) -> None:
    write_scenario(tmp_path, "good")
    async with open_served(farm_config(tmp_path)) as served:
        browser = await logged_in(served)
        token = {"token": served.tokens["games.viewer"].reveal()}

        assert (await browser.ask("POST", "/api/v1/runs", {"scenario": "good"}, origin=origin))[0] == 403
        assert (await browser.ask("POST", "/api/v1/tickets", {}, origin=origin))[0] == 403
        assert (await browser.ask("DELETE", "/api/v1/session", origin=origin))[0] == 403
        assert (await browser.ask("GET", "/api/v1/runs", origin=origin))[0] == 200, "they may not read it"
        if origin:
            assert (await browser.ask("POST", "/api/v1/session", token, origin=origin))[0] == 403


async def test_a_revoked_token_ends_its_sessions_and_tickets(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        browser = await logged_in(served, "games.viewer")
        ticket = (await browser.ask("POST", "/api/v1/tickets", {"seconds": 60}))[1]["ticket"]
        file = tmp_path / "tokens.json"
        (mine,) = [one for one in read_tokens(file) if one.user == "viewer-games"]
        before = await served.callers.record_for(ticket, ticket=True)
        revoke_token(file, mine.id)

        assert before == mine
        assert await served.callers.record_for(ticket, ticket=True) is None
        assert (await browser.ask("GET", "/api/v1/session"))[0] == 401
        assert len(served.callers.sessions) == 0


async def test_a_ticket_is_no_token(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        made = (await served.call("games.viewer", "POST", "/api/v1/tickets", {})).json
        bearer = {"authorization": f"Bearer {made['ticket']}"}
        browser = Browser(served, "")

        assert made["ticket"].startswith("ticket_")
        assert datetime.fromisoformat(made["expires_at"]) > datetime.now(UTC)
        assert (await browser.ask("GET", "/api/v1/runs", **bearer))[0] == 401
        assert (await browser.ask("POST", "/api/v1/tickets", {}, **bearer))[0] == 401
        assert (await browser.ask("POST", "/api/v1/session", {"token": made["ticket"]}))[0] == 401


@pytest.mark.parametrize(
    "body",
    [{"seconds": 0}, {"seconds": 601}, {"seconds": True}, {"seconds": "60"}, {"roles": ["admin"]}, {"seconds": 1e9}],
)
async def test_tickets_that_nobody_gives(tmp_path: Path, body: Any) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        browser = await logged_in(served)

        assert (await browser.ask("POST", "/api/v1/tickets", body))[0] == 400


async def test_hostile_log_ins(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path, body_bytes=4096)) as served:
        browser = Browser(served, "")
        good = served.tokens["games.viewer"].reveal()
        bodies: list[tuple[Any, int]] = [
            *(({}, 400), ({"token": 7}, 400), ({"token": None}, 400), (b"[]", 400), (b"{", 400)),
            *(({"token": good, "roles": ["admin"]}, 400), ({"token": "x" * 5000}, 413)),
            *(
                ({"token": ""}, 401),
                ({"token": good[:-1]}, 401),
                ({"token": "\u0000\ud800"}, 401),
                ({"token": "x" * 999}, 401),
            ),
        ]
        for body, status in bodies:
            answer = await browser.ask("POST", "/api/v1/session", body)
            assert (answer[0], answer[2]) == (status, ""), body
        for cookie in (f"{COOKIE}=", f"{COOKIE}=x", f"{COOKIE}={good}", f"{COOKIE}=" + "y" * 4000, "\u00e9"):
            assert (await Browser(served, cookie).ask("GET", "/api/v1/session"))[0] == 401, cookie


async def test_failed_log_ins_are_limited(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path), failed_logins_per_minute=3) as served:
        browser = Browser(served, "")
        statuses = [(await browser.ask("POST", "/api/v1/session", {"token": "wrong"}))[0] for _ in range(5)]
        token = {"token": served.tokens["games.viewer"].reveal()}

        assert (statuses[:3], statuses[-1]) == ([401] * 3, 429)
        assert (await browser.ask("POST", "/api/v1/session", token))[0] == 429


def _websocket(query: str = "", **headers: str) -> HTTPConnection:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "websocket",
        "path": "/",
        "headers": raw,
        "query_string": query.encode(),
        "client": ("10.1.1.1", 1),
    }
    return HTTPConnection(scope)


async def test_websockets_take_a_token_a_ticket_or_a_cookie_of_their_own_page(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        callers, host = served.callers, served.url.removeprefix("http://")
        browser = await logged_in(served, "games.viewer")
        ticket = (await browser.ask("POST", "/api/v1/tickets", {}))[1]["ticket"]
        bearer = f"Bearer {served.tokens['games.viewer'].reveal()}"
        known = [
            await callers.who(_websocket(authorization=bearer), ticket=True),
            await callers.who(_websocket(f"ticket={ticket}"), ticket=True),
            await callers.who(_websocket(cookie=browser.cookie, host=host, origin=served.url), ticket=True),
        ]
        turned = [
            await callers.who(_websocket(cookie=browser.cookie, host=host, origin="https://evil.example"), ticket=True),
            await callers.who(_websocket(cookie=browser.cookie, host=host), ticket=True),
            await callers.who(_websocket(f"ticket={ticket}x"), ticket=True),
            await callers.who(_websocket(f"ticket={ticket}")),
            await callers.who(_websocket("ticket=", cookie=browser.cookie, host=host, origin=served.url), ticket=True),
        ]

        assert [one.record.user for one in known if isinstance(one, Known)] == ["viewer-games"] * 3
        assert [one.status for one in turned if isinstance(one, Turned)] == [403, 403, 401, 401, 401]
        with_cookie = known[2]
        assert isinstance(with_cookie, Known)
        assert await callers.is_still(with_cookie)
        await browser.ask("DELETE", "/api/v1/session")
        assert not await callers.is_still(with_cookie)


async def test_the_key_of_tickets_is_the_farms_alone(tmp_path: Path) -> None:
    async with open_served(farm_config(tmp_path)) as served:
        record, _ = create_token(
            tmp_path / "tokens.json", user="new", tenant=TenantId("t"), roles=[Role.VIEWER], now=datetime.now(UTC)
        )
        ticket, _ = served.callers.tickets.ticket(record, 60)
        key = tmp_path / "farm" / "ticket.key"
        mode, content = key.stat().st_mode & 0o777, key.read_bytes()
    async with open_served(attrs.evolve(farm_config(tmp_path))) as again:
        assert mode == 0o600
        assert key.read_bytes() == content
        assert await again.callers.record_for(ticket.reveal(), ticket=True) == record, "tickets outlive a restart"
