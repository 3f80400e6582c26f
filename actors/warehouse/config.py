"""What an operator says about loading the fleet's own metrics: where from, where to, and how long things are kept."""

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, structured
from sqlassist.semantic import NAME_PATTERN

_VARIABLE = {"pattern": "|[A-Z_][A-Z0-9_]*", "means": "the name of an environment variable"}


@attrs.frozen
class ServerTarget:
    """A MariaDB or MySQL server, and the one account that may write there. Only the loader reads its password."""

    user: str = attrs.field(metadata={"nonempty": True})
    schema: str = attrs.field(metadata={"pattern": NAME_PATTERN, "means": "a plain name of letters, digits and _"})
    """Exists already; the loader makes the tables in it."""
    host: str = "127.0.0.1"
    port: int = attrs.field(default=3306, metadata={"min": 1, "max": 65535})
    socket: str = ""
    tls_ca: str = ""
    """File with the CA of the server's certificate; empty is no TLS, which fits loopback and sockets alone."""
    password_file: str = ""
    """Of mode 0600."""
    password_env: str = attrs.field(default="", metadata=_VARIABLE)


@attrs.frozen
class LoaderConfig:
    """The loader's file; without one, DuckDB files are published beside the spool."""

    folder: str = attrs.field(metadata={"nonempty": True})
    """The warehouse folder, `runs/warehouse`; `spool/` is in it."""
    server: ServerTarget | None = None
    """None: DuckDB files, one a tenant, in `folder`."""
    every_seconds: float = attrs.field(default=60.0, metadata={"min": 1, "max": 86_400})
    """With --follow: between two looks at the spool."""
    keep_loaded_hours: float = attrs.field(default=24.0, metadata={"min": 0})
    """Loaded segments stay in the spool for so long, ..."""
    keep_loaded_megabytes: float = attrs.field(default=256.0, metadata={"min": 0})
    """... and the newest of them only up to this size, a tenant."""
    keep_days: int = attrs.field(default=0, metadata={"min": 0, "max": 36_500})
    """DuckDB files: older rows are left out; 0 keeps all. On a server this is the DBA's."""


def parse_loader_config(source: bytes, file: str) -> LoaderConfig:
    """Read a loader's file.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), LoaderConfig, source=source, file=file)
    lines = source.decode("utf-8-sig", "replace").splitlines()
    if parsed is not None and parsed.server is not None:
        server, at = parsed.server, "$.server"
        if bool(server.password_file) == bool(server.password_env):
            text = "exactly one of 'password_file' and 'password_env' says where the password is"
            problems.append(Problem(text, at, file, line_of(lines, at)))
        if parsed.keep_days:
            text = "'keep_days' is for DuckDB files; on a server the DBA removes old rows"
            problems.append(Problem(text, "$.keep_days", file, line_of(lines, "$.keep_days")))
    if parsed is None or problems:
        raise ScenarioError(problems)
    return parsed
