"""Pinned questions of the farm that stands in behind the wall: their answers, and asking them again."""

from typing import Any

import attrs
from starlette.responses import JSONResponse, Response

HOSTILE = '<script>window.hurt=1</script><img src=x onerror="window.hurt=1">'
ROWS = [["2027-01-1" + str(day), 120 + day * 7, HOSTILE if day == 3 else "ok"] for day in range(6)]
SPEC = {"mark": "bar", "data": {"values": []}}
WITHOUT_ROWS = ("columns", "rows", "chart", "sql")


def pin_of(name: str, title: str, **more: Any) -> dict[str, Any]:
    """One as the farm shows it."""
    return {
        "id": name,
        "title": title,
        "question": f"answer {title}",
        "sql": None,
        "schedule": None,
        "threshold": None,
        "tenant": "games",
        "user": "ann",
        "created_at": "2026-01-10T08:00:00Z",
        "state": "waiting",
        "paused": None,
        "due_at": None,
        "beyond": False,
        "last": None,
        **more,
    }


def kept(**more: Any) -> dict[str, Any]:
    """A kept answer."""
    return {
        "state": "succeeded",
        "at": "2026-01-15T00:30:04Z",
        "error": None,
        "failed_at": None,
        "columns": ["day", "episodes", HOSTILE],
        "rows": ROWS,
        "row_count": 312,
        "truncated": True,
        "sql": f"SELECT day, episodes FROM t -- {HOSTILE}",
        "summary": f"Episodes rose from 120 to 155. {HOSTILE}",
        "chart": SPEC,
        **more,
    }


PINS = (
    pin_of(
        "crossed",
        f"Episodes by day {HOSTILE}",
        schedule={"at": "08:30", "zone": "Asia/Shanghai"},
        threshold={"column": "episodes", "above": 150},
        due_at="2030-01-01T00:30:00Z",
        beyond=True,
        last=kept(),
    ),
    pin_of(
        "failed",
        "Crashes by server",
        schedule={"every_minutes": 120},
        threshold={"column": "crashes", "below": 0.5},
        due_at="2030-01-01T02:00:00Z",
        last=kept(state="failed", error=f"the database is away {HOSTILE}", failed_at="2026-01-16T00:30:02Z"),
    ),
    pin_of("paused", "每天的成功率", state="paused", paused=f"the token is no longer good {HOSTILE}", last=kept()),
    pin_of("asked", "Retention of new players", state="asking", schedule={"every_minutes": 60}),
)


@attrs.define(eq=False)
class WallPins:
    """What the wall sees of them: one that is asked again has its answer at the second look."""

    pins: dict[str, dict[str, Any]] = attrs.field(factory=lambda: {one["id"]: dict(one) for one in PINS})
    looks: dict[str, int] = attrs.field(factory=dict)
    """Name → how often it was looked at while it is being asked."""

    def answer(self, parts: list[str], method: str, body: Any) -> Response:
        """Every address under /api/v1/pins."""
        match method, parts:
            case "GET", []:
                return JSONResponse({"pins": [_light(pin) for pin in self.pins.values()]})
            case "POST", []:
                name = f"made-{len(self.pins)}"
                self.pins[name] = pin_of(
                    name, body["title"], **{key: body.get(key) for key in ("schedule", "threshold")}
                )
                self._ask(name)
                return JSONResponse(self.pins[name], 201)
            case _, [name, *_] if name not in self.pins:
                return JSONResponse({"error": "there is no such pin"}, 404)
            case "GET", [name]:
                self._look(name)
                return JSONResponse(self.pins[name])
            case "DELETE", [name]:
                del self.pins[name]
                return JSONResponse({"id": name, "removed": True})
            case "POST", [name, "run"]:
                self._ask(name)
                return JSONResponse(self.pins[name])
            case _:
                return JSONResponse({"error": "Not Found"}, 404)

    def _ask(self, name: str) -> None:
        self.pins[name] |= {"state": "waiting", "paused": None, "due_at": "2026-02-01T00:00:00Z"}
        self.looks[name] = 0

    def _look(self, name: str) -> None:
        if name not in self.looks:
            return
        self.looks[name] += 1
        self.pins[name] |= {"state": "asking", "due_at": "2030-01-01T00:00:00Z"}
        if self.looks[name] == 2:
            del self.looks[name]
            newer = kept(
                at="2026-02-01T00:00:09Z", summary="Episodes fell to 90.", rows=[["2027-01-16", 90, "ok"]], row_count=1
            )
            self.pins[name] |= {"state": "waiting", "beyond": False, "last": newer | {"truncated": False}}


def _light(pin: dict[str, Any]) -> dict[str, Any]:
    last = pin["last"]
    if last is None:
        return pin
    return {**pin, "last": {key: value for key, value in last.items() if key not in WITHOUT_ROWS}}
