"""Recorded outputs of tools."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "inference" / "recorded"


def recorded(name: str) -> str:
    """The text of a file in tests/inference/recorded."""
    return (FOLDER / name).read_text("utf-8")
