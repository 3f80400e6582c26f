"""What a farm keeps of its engines: which are drained, and which changes were not made. All calls block.

See `actors.farm.store.StoreDesk`. It is kept as JSON of the classes' fields: a configuration that an older or newer
release wrote and this one cannot read is as good as none.
"""

import json
from collections.abc import Collection, Mapping, Sequence

import attrs
import cattrs

from actors.farm.database import Database
from actors.farm.rollout import (
    ChangeAdapter,
    Holdback,
    RemoveEngine,
    ReplaceEngine,
    Step,
    without_secrets,
)
from runtime.ids import EngineId
from runtime.telemetry import emit

_KINDS: Mapping[str, type[Step]] = {
    "replace": ReplaceEngine,
    "remove": RemoveEngine,
    "adapter": ChangeAdapter,
}
_NAMES: Mapping[type[Step], str] = {kind: name for name, kind in _KINDS.items()}


@attrs.define(eq=False)
class EngineStore:
    """In a database that is open."""

    _db: Database = attrs.field(alias="db")

    def held(self) -> tuple[Holdback, ...]:
        """Changes that were not made, in their order."""
        found = []
        for row in self._db.rows("SELECT * FROM held_changes ORDER BY number", ()):
            try:
                step = cattrs.structure(json.loads(row["step"]), _KINDS[row["kind"]])
            except (cattrs.BaseValidationError, ValueError, TypeError, KeyError) as error:
                emit("actors.farm.held_change_unreadable", level="warning", kind=row["kind"], error=repr(error))
            else:
                found.append(Holdback(step, bool(row["refused"])))
        return tuple(found)

    def hold(self, held: Sequence[Holdback]) -> None:
        """Keep these, and none that were kept before. Values of environment variables are left out."""
        rows = [
            (_NAMES[type(step)], json.dumps(cattrs.unstructure(step)), int(one.refused))
            for one in held
            if (step := without_secrets(one.step)) is not None
        ]
        with self._db.changing() as db:
            db.execute("DELETE FROM held_changes")
            db.executemany("INSERT INTO held_changes (kind, step, refused) VALUES (?, ?, ?)", rows)

    def keep(self, held: Sequence[Holdback], drained: Collection[EngineId]) -> None:
        """Keep these changes and drained engines, and none of before: the configuration may know them no more."""
        self.hold(held)
        with self._db.changing() as db:
            db.execute("DELETE FROM drained_engines")
            db.executemany("INSERT INTO drained_engines (engine) VALUES (?)", [(engine,) for engine in drained])

    def drained(self) -> frozenset[EngineId]:
        """Engines that an operator took out."""
        return frozenset(EngineId(row["engine"]) for row in self._db.rows("SELECT engine FROM drained_engines", ()))

    def drain(self, engine: EngineId) -> None:
        """An operator takes one out."""
        with self._db.changing() as db:
            db.execute("INSERT OR IGNORE INTO drained_engines (engine) VALUES (?)", (engine,))

    def undrain(self, engine: EngineId) -> None:
        """It is back, or not wanted any more."""
        with self._db.changing() as db:
            db.execute("DELETE FROM drained_engines WHERE engine = ?", (engine,))
