"""Where there is no MySQL to be had, that is said, and nothing half done is left to be taken for a server."""

import socket
from pathlib import Path

import pytest

from tests.kit import mysql


def test_a_mirror_that_does_not_answer_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mysql.missing() is not None:
        pytest.skip(str(mysql.missing()))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but it does not listen
        monkeypatch.setattr(mysql, "MIRROR", f"http://127.0.0.1:{closed.getsockname()[1]}/debian")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(mysql.CannotBeHad, match="apt-get update"):
            mysql.installed(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_machine_without_debians_keys_is_told_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "KEYRING", tmp_path / "none.gpg")

    with pytest.raises(mysql.CannotBeHad):
        mysql.installed(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
