"""A farm's daemon for `corral bench wall`: `corral farm serve`, but its runs are `actors.bench.wall_play`.

`python -m actors.bench.wall_farm CONFIG`: prints its address once clients may connect; until SIGTERM.
"""

import sys
from functools import partial
from pathlib import Path

import trio

from actors.farm.loading import load_farm_config
from actors.farm.serve import serve_farm
from actors.farm.systemd import take_notifier
from runtime.collector import collect_rarely
from runtime.telemetry import configure

PROGRAM = (sys.executable, "-m", "actors.bench.wall_play")


def main(file: Path) -> None:
    """Until SIGTERM."""
    configure(json=True, level="warning")
    collect_rarely()
    serve = partial(serve_farm, notifier=take_notifier(), on_ready=_ready, program=PROGRAM)
    trio.run(partial(serve, file, load_farm_config(file)))


def _ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
