"""The bundled apps by name."""

from actors.rehearsal.apps.base import AppFactory
from actors.rehearsal.apps.battler import Battler
from actors.rehearsal.apps.errands import Errands
from actors.rehearsal.apps.merge import Merge

APPS: dict[str, AppFactory] = {"battler": Battler, "merge": Merge, "errands": Errands}
"""{name: its factory}"""
