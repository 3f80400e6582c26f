"""A farm as a process of its own that can be killed: `python -m tests.kit.farm_daemon FOLDER RUNS`.

The first one submits the runs; each prints `ready`, and stays.
"""

import sys
from pathlib import Path

import trio

from actors.farm.daemon import open_farm
from tests.kit.farm import PROGRAM, farm_config, submit


async def main(folder: Path, runs: int) -> None:
    """Until it is killed."""
    async with open_farm(farm_config(folder, phones=3, runs=3), program=PROGRAM) as farm:
        known = await farm.store.do(lambda store: store.runs(limit=1000))
        for number in range(len(known), runs):
            await submit(farm, ("one", "two")[number % 2], tenant="ab"[number % 2])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
