"""Reads the farm's file and looks whether what it names is there; after it every path is absolute."""

from pathlib import Path

import attrs

from actors.assistant_config import load_assistant_config
from actors.configuration import Problem, ScenarioError, line_of
from actors.farm.config import FarmAssistant, FarmConfig, FarmFolders, parse_farm_config
from actors.listen_config import TokensFile
from actors.vendor_config import parse_farm


def load_farm_config(path: Path) -> FarmConfig:
    """Read it; names in it are relative to its folder.

    Raises:
        ScenarioError: it cannot be read, is wrong, or names a file that is missing or wrong.
    """
    source = _read(path, "$", str(path))
    config = parse_farm_config(source, str(path))
    folder = path.parent.absolute()

    def beside(name: str) -> str:
        return str(folder / name)

    def beside_if(name: str | None) -> str | None:
        return None if name is None else beside(name)

    farm, listen = config.farm, config.listen
    config = attrs.evolve(
        config,
        farm=FarmFolders(beside(farm.folder), beside(farm.scenarios), beside_if(farm.vendor)),
        listen=attrs.evolve(
            listen, tls_certificate=beside_if(listen.tls_certificate), tls_key=beside_if(listen.tls_key)
        ),
        tokens=TokensFile(beside(config.tokens.file)),
        assistant=None if config.assistant is None else FarmAssistant(beside(config.assistant.file)),
    )
    lines = source.decode("utf-8-sig").splitlines()
    needed = {
        "$.farm.vendor": config.farm.vendor,
        "$.listen.tls_certificate": config.listen.tls_certificate,
        "$.listen.tls_key": config.listen.tls_key,
        "$.assistant.file": None if config.assistant is None else config.assistant.file,
    }
    problems = [
        Problem(f"there is no file {name}", at, str(path), line_of(lines, at))
        for at, name in needed.items()
        if name is not None and not Path(name).is_file()
    ]
    if not Path(config.farm.scenarios).is_dir():
        at = "$.farm.scenarios"
        problems.append(Problem(f"there is no folder {config.farm.scenarios}", at, str(path), line_of(lines, at)))
    if problems:
        raise ScenarioError(problems)
    if config.farm.vendor is not None:
        parse_farm(_read(Path(config.farm.vendor), "$", config.farm.vendor), config.farm.vendor)
    if config.assistant is not None:
        load_assistant_config(Path(config.assistant.file))
    return config


def _read(path: Path, at: str, file: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", at, file)]) from error
