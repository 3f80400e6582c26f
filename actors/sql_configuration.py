"""Reads the file that `corral sql` commands take: TOML → `SqlConfig`, with every mistake at once."""

from collections.abc import Iterator
from pathlib import Path

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from sqlassist.config import FILTER_KINDS, Filter, SqlConfig, with_rollup_sources
from sqlassist.config_checks import config_problems

register_tagged_union(Filter, FILTER_KINDS)


def parse_sql_config(source: bytes, file: str) -> SqlConfig:
    """Read a configuration of databases.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.

    Rollups that are kept in files have become a source of their own.
    """
    parsed, problems = structured(read_toml(source, file), SqlConfig, source=source, file=file)
    if parsed is None:
        raise ScenarioError(problems)
    lines = source.decode("utf-8-sig").splitlines()
    problems = [Problem(message, path, file, line_of(lines, path)) for message, path in config_problems(parsed)]
    if problems:
        raise ScenarioError(problems)
    return with_rollup_sources(parsed)


def load_sql_config(path: Path) -> SqlConfig:
    """As `parse_sql_config`, of a file; and every folder for rollups is there.

    Raises:
        ScenarioError: it cannot be read, or is wrong.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error
    config = parse_sql_config(source, str(path))
    lines = source.decode("utf-8-sig").splitlines()
    problems = [Problem(text, at, str(path), line_of(lines, at)) for text, at in _folder_problems(config)]
    if problems:
        raise ScenarioError(problems)
    return config


def _folder_problems(config: SqlConfig) -> Iterator[tuple[str, str]]:
    for name, source in config.sources.items():
        at = f"$.sources.{name}.rollup_folder"
        if source.rollup_folder and not Path(source.rollup_folder).is_dir():
            yield f"there is no folder {source.rollup_folder!r}: make it, with mode 0700", at
