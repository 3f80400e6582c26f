"""The assistant's file: what it says, and every mistake at once."""

import re
from pathlib import Path

import attrs
import pytest

from actors.analyst_limits import AssistantLimits
from actors.assistant_config import load_assistant_config, parse_assistant_config
from actors.configuration import ScenarioError

WHOLE = b"""
engine = "none"
[sql]
file = "databases.toml"
[listen]
port = 0
tls_certificate = "server.pem"
origins = ["https://farm.example", "http://127.0.0.1:8080"]
[tokens]
file = "tokens.json"
[state]
folder = "state"
[tenants.north]
input_tokens_per_minute = 1000
[limits]
questions_per_minute = 5
"""


def _problems(source: bytes) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_assistant_config(source, "a.toml")
    return [str(problem) for problem in caught.value.problems]


def test_paths_are_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(WHOLE)
    for name in ("databases.toml", "server.pem"):
        (tmp_path / name).write_text("")

    config = load_assistant_config(tmp_path / "a.toml")

    assert config.sql.file == str(tmp_path / "databases.toml")
    assert config.listen.tls_certificate == str(tmp_path / "server.pem")
    assert (config.tokens.file, config.state.folder) == (str(tmp_path / "tokens.json"), str(tmp_path / "state"))
    assert config.limits.questions_per_minute == 5
    assert {name: one.input_tokens_per_minute for name, one in config.tenant_limits().items()} == {"north": 1000}
    assert (config.engines, config.listen.host) == ((), "127.0.0.1")


def test_every_mistake_is_told_at_once_with_its_line() -> None:
    problems = _problems(b'[sql]\nfile = ""\n[listen]\nport = 70000\n[limits]\nslow_second = 3\nserver_questions = 0\n')

    assert len(problems) == 4
    assert any(problem.startswith("a.toml:4: 'port'") for problem in problems)
    assert any("did you mean 'slow_seconds'?" in problem for problem in problems)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[listen]\nhost = "0.0.0.0"', "tokens would cross the network unencrypted"),
        ('[listen]\ntls_key = "k"', "'tls_key' needs 'tls_certificate'"),
        ('[listen]\norigins = ["*"]', "must be like https://farm.example"),
        ('[listen]\norigins = ["https://farm.example/"]', "must be like https://farm.example"),
        ('engine = "none"\n[[engines]]\nid = "e"\nurl = "http://127.0.0.1:1"', 'engine = "none" contradicts'),
        ('[[engines]]\nid = "e"', "url: it is needed"),
        ('[[engines]]\nid = "e"\n[engines.launch]', "starts no engines"),
        ('[[engines]]\nid = "e"\nurl = "http://a:1"\n[[engines]]\nid = "e"\nurl = "http://b:1"', "two engines 'e'"),
        ("[tenants.north]\nweight = 0", "weight: it must be more than 0"),
        ('engine = "openai"', "none"),
    ],
)
def test_what_does_not_fit_together(more: str, message: str) -> None:
    sql = '[sql]\nfile = "d.toml"\n'
    source = f"{more}\n{sql}" if more.startswith("engine") else f"{sql}{more}\n"

    assert any(message in problem for problem in _problems(source.encode())), _problems(source.encode())


def test_a_proxy_may_do_tls() -> None:
    config = parse_assistant_config(b'[sql]\nfile = "d.toml"\n[listen]\nhost = "0.0.0.0"\nplain = true\n', "a.toml")

    assert config.listen.plain


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(WHOLE)

    with pytest.raises(ScenarioError) as caught:
        load_assistant_config(tmp_path / "a.toml")
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        load_assistant_config(tmp_path / "b.toml")

    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("$.sql.file", 4),
        ("$.listen.tls_certificate", 7),
    ]


def test_the_page_tells_every_limit_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "assistant-protocol.md").read_text("utf-8")
    for field in attrs.fields(AssistantLimits):
        default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        assert re.search(rf"{field.name}`? (= )?{default}\b", page), field.name
