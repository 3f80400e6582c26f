"""`corral farm serve` whose runs are `tests.kit.farm_run`, and whose assistant's answers are scripted.

`python -m tests.kit.farm_serve CONFIG`
"""

import sys
from functools import partial
from pathlib import Path

import trio

from actors.farm.loading import load_farm_config
from actors.farm.serve import serve_farm
from actors.farm.systemd import take_notifier
from runtime.telemetry import configure
from tests.kit.farm import PROGRAM
from tests.kit.scripted_assistant import scripted_module


def main(file: Path) -> None:
    """Until SIGTERM."""
    configure(json=True)
    notifier = take_notifier()
    serve = partial(serve_farm, notifier=notifier, on_ready=_ready, program=PROGRAM)
    trio.run(partial(serve, file, load_farm_config(file)))


def _ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.modules["actors.assistant"] = scripted_module()
    main(Path(sys.argv[1]))
