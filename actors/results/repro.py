"""The smallest run folder that shows a finding: scenario, seed, and one episode with its model's outputs."""

import shutil
from pathlib import Path

ABOUT = ("run.json", "scenario.toml")


def can_reproduce(run: Path, episode: str) -> bool:
    """The episode's record is there."""
    return (run / "episodes" / episode / "steps.jsonl").is_file()


def repro_files(run: Path, episode: str) -> dict[str, Path]:
    """What belongs to it: name in the new folder → file. Links are left out.

    Args:
        run: The run folder.
        episode: One that `can_reproduce`.
    """
    files = [run / name for name in ABOUT]
    for folder in (run / "episodes" / episode, run / "pictures"):
        if folder.is_dir() and not folder.is_symlink():
            files += sorted(folder.rglob("*"))
    return {str(file.relative_to(run)): file for file in files if file.is_file() and not file.is_symlink()}


def copy_repro(run: Path, episode: str, out: Path) -> None:
    """Write it to a new folder, whole or not at all.

    Raises:
        OSError: it cannot be read or written.
    """
    unfinished = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name, file in repro_files(run, episode).items():
        target = unfinished / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    unfinished.rename(out)
