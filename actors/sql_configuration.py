"""Reads the file that `corral sql` commands take: TOML → `SqlConfig`, with every mistake at once."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from sqlassist.config import FILTER_KINDS, Filter, SourceConfig, SqlConfig, with_rollup_sources
from sqlassist.config_checks import config_problems
from sqlassist.semantic import SemanticLayer

register_tagged_union(Filter, FILTER_KINDS)


def parse_sql_config(source: bytes, file: str, layers: Callable[[str], tuple[bytes, str]] | None = None) -> SqlConfig:
    """Read a configuration of databases.

    Args:
        source: Its bytes.
        file: What it is called in messages.
        layers: Gives the bytes of a semantic layer file by the name written, and what it is called in messages; raises
            OSError. Without it no such file may be named.

    Raises:
        ScenarioError: with every mistake, each with its file, line and key path.

    Rollups that are kept in files have become a source of their own.
    """
    parsed, problems = structured(read_toml(source, file), SqlConfig, source=source, file=file)
    if parsed is None:
        raise ScenarioError(problems)
    lines = source.decode("utf-8-sig").splitlines()
    texts: dict[str, tuple[str, list[str]]] = {}  # source → its semantic layer file and the lines of it
    problems, sources = [], dict(parsed.sources)
    for name, one in parsed.sources.items():
        if one.semantic_file:
            at = f"$.sources.{name}.semantic_file"
            try:
                sources[name], texts[name] = _with_layer(one, layers)
            except ScenarioError as error:
                problems += error.problems
            except OSError as error:
                text = f"{one.semantic_file!r} cannot be read: {error.strerror or error}"
                problems.append(Problem(text, at, file, line_of(lines, at)))
            if one.semantic != SemanticLayer():
                text = f"{one.semantic_file!r} is the semantic layer: put this into it"
                at = f"$.sources.{name}.semantic"
                problems.append(Problem(text, at, file, line_of(lines, at)))
    if problems:
        raise ScenarioError(problems)
    config = attrs.evolve(parsed, sources=sources)
    problems = [_placed(message, path, file, lines, texts) for message, path in config_problems(config)]
    if problems:
        raise ScenarioError(problems)
    return with_rollup_sources(config)


def _with_layer(
    source: SourceConfig, layers: Callable[[str], tuple[bytes, str]] | None
) -> tuple[SourceConfig, tuple[str, list[str]]]:
    if layers is None:
        raise OSError("there is no folder to look in")
    text, file = layers(source.semantic_file)
    layer, problems = structured(read_toml(text, file), SemanticLayer, source=text, file=file)
    if layer is None:
        raise ScenarioError(problems)
    return attrs.evolve(source, semantic=layer), (file, text.decode("utf-8-sig").splitlines())


def _placed(
    message: str, path: str, file: str, lines: list[str], texts: Mapping[str, tuple[str, list[str]]]
) -> Problem:
    """A problem where its author can mend it: in the configuration, or in the semantic layer file."""
    for name, (layer_file, layer_lines) in texts.items():
        start = f"$.sources.{name}.semantic"
        if path.startswith(f"{start}."):
            inner = "$" + path.removeprefix(start)
            return Problem(message, inner, layer_file, line_of(layer_lines, inner))
    return Problem(message, path, file, line_of(lines, path))


def load_sql_config(path: Path) -> SqlConfig:
    """As `parse_sql_config`, of a file; semantic layer files are beside it, and every folder for rollups is there.

    Raises:
        ScenarioError: it cannot be read, or is wrong.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error

    def layers(name: str) -> tuple[bytes, str]:
        beside = path.parent / name
        return beside.read_bytes(), str(beside)

    config = parse_sql_config(source, str(path), layers)
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
