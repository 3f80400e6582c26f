"""Where there is no MySQL to be had, that is said, and nothing half done is left to be taken for a server."""

import socket
from pathlib import Path

import pytest

from tests.kit import debian_packages, mysql


def test_a_mirror_that_does_not_answer_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if debian_packages.missing() is not None:
        pytest.skip(str(debian_packages.missing()))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but it does not listen
        monkeypatch.setattr(debian_packages, "MIRROR", f"http://127.0.0.1:{closed.getsockname()[1]}/debian")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(debian_packages.CannotBeHad, match="apt-get update"):
            mysql.installed(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_machine_without_debians_keys_is_told_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian_packages, "KEYRING", tmp_path / "none.gpg")

    with pytest.raises(debian_packages.CannotBeHad):
        mysql.installed(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
