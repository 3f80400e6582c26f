"""Stands in for `corral run` in tests of the farm: holds its phones, waits, leaves a summary and an exit code.

What it does stands in the scenario's description: `seconds=0.2 code=1 once=1` (`once`: that code in the first attempt
alone, 0 later), `linger=1` (seconds that it takes to end after SIGTERM). Two at a time on one phone leave a file
`violations`. What lies in `template-1` beside the farm's folder is what its first attempt leaves, and so on.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
import tomllib
from pathlib import Path


def main(arguments: list[str]) -> int:
    """`run FILE --out DIR --run-id ID --headless --set KEY=VALUE...`."""
    assert arguments[0] == "run", arguments
    scenario = tomllib.loads(Path(arguments[1]).read_text("utf-8"))
    options = {name: arguments[index + 1] for index, name in enumerate(arguments) if name in ("--out", "--run-id")}
    settings = dict(arguments[index + 1].split("=", 1) for index, name in enumerate(arguments) if name == "--set")
    does = dict(re.findall(r"(\w+)=([\d.]+)", scenario.get("description", "")))
    out, run = Path(options["--out"]), options["--run-id"]
    folder = out / run
    folder.mkdir(parents=True)
    held = out.parent / "held"
    held.mkdir(exist_ok=True)
    groups = tomllib.loads(f"phones = {settings['phones']}")["phones"]
    mine = [held / str(address).replace(":", "_") for group in groups for address in group.get("addresses", ())]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    for phone in mine:
        try:
            os.close(os.open(phone, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            (out.parent / "violations").write_text(f"{run} on {phone.name}\n")
    sys.stdout.write(f"playing {run} on {len(mine)} phones\n")
    sys.stdout.flush()
    deadline = time.monotonic() + float(does.get("seconds", "0.05"))
    while time.monotonic() < deadline and not ended:
        time.sleep(0.01)
    if ended:
        time.sleep(float(does.get("linger", "0")))
    for phone in mine:
        phone.unlink(missing_ok=True)
    code = int(does.get("code", "0"))
    if "once" in does and re.search(r"Z-[0-9a-f]{6}-\d+$", run):
        code = 0
    number = re.search(r"Z-[0-9a-f]{6}-(\d+)$", run)
    template = out.parent.parent / f"template-{number[1] if number else 1}"
    if template.is_dir():
        shutil.copytree(template, folder, dirs_exist_ok=True)
    if not (folder / "summary.json").exists():
        totals = {"episodes": 1, "tenant": settings["tenant"].strip('"')}
        (folder / "summary.json").write_text(json.dumps({"run": {"run": run}, "episodes": [], "totals": totals}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
