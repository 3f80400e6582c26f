"""Reads the file that `corral sql` commands take: TOML → `SqlConfig`, with every mistake at once."""

from pathlib import Path

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from sqlassist.config import FILTER_KINDS, Filter, SqlConfig, config_problems

register_tagged_union(Filter, FILTER_KINDS)


def parse_sql_config(source: bytes, file: str) -> SqlConfig:
    """Read a configuration of databases.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), SqlConfig, source=source, file=file)
    if parsed is None:
        raise ScenarioError(problems)
    lines = source.decode("utf-8-sig").splitlines()
    problems = [Problem(message, path, file, line_of(lines, path)) for message, path in config_problems(parsed)]
    if problems:
        raise ScenarioError(problems)
    return parsed


def load_sql_config(path: Path) -> SqlConfig:
    """As `parse_sql_config`, of a file.

    Raises:
        ScenarioError: it cannot be read, or is wrong.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error
    return parse_sql_config(source, str(path))
