"""Plain top-level packages have a price: another distribution may own their names. Here it is seen at once."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LISTED = PYPROJECT["tool"]["setuptools"]["packages"]
ROOMS = [name for name in LISTED if "." not in name]


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_one_owner_and_comes_from_this_checkout(room: str) -> None:
    module = import_module(room)

    assert module.__file__ is not None
    assert Path(module.__file__).parent == ROOT / room
    assert set(packages_distributions().get(room, ["corral"])) == {"corral"}


def test_every_package_folder_is_listed() -> None:
    found = {
        str(path.parent.relative_to(ROOT)).replace(os.sep, ".")
        for room in ROOMS
        for path in ROOT.glob(f"{room}/**/__init__.py")
    }

    assert found == set(LISTED)


@pytest.mark.parametrize("path", sorted(p for room in ROOMS for p in ROOT.glob(f"{room}/**/__init__.py")))
def test_package_files_hold_a_docstring_and_nothing_else(path: Path) -> None:
    text = path.read_text("utf-8")

    assert re.fullmatch(r'"""[^"]+"""\n', text), f"{path} should hold one docstring"


def test_the_import_contracts_know_every_inference_module() -> None:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    forbidden = next(c for c in contracts if c["name"].startswith("upper rooms"))["forbidden_modules"]
    modules = {f"inference.{path.stem}" for path in (ROOT / "inference").glob("*.py") if path.stem != "__init__"}

    assert set(forbidden) == modules - {"inference.messages", "inference.profile"}


def test_importing_a_policy_loads_no_trio() -> None:
    code = "import policies.episode, policies.reply, sys; sys.exit('trio' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy") / "corral"
    # setuptools keeps modules in build/ that were removed long ago
    left_out = shutil.ignore_patterns("build", "runs", ".*", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_every_module_of_the_wheel_imports_from_the_root_folder(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    modules = sorted(
        ".".join(path.relative_to(tmp_path).with_suffix("").parts)
        for room in ROOMS
        for path in tmp_path.glob(f"{room}/**/*.py")
        if path.name != "__init__.py"
    )
    checkout = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ROOMS
        for path in ROOT.glob(f"{room}/**/*.py")
        if path.name != "__init__.py"
    }
    code = f"import importlib, sys; sys.path.insert(0, {str(tmp_path)!r})\n" + "\n".join(
        f"importlib.import_module({name!r})" for name in modules
    )
    code += f"\nimport actors; assert actors.__file__.startswith({str(tmp_path)!r}), actors.__file__"

    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert set(modules) == checkout


@pytest.mark.parametrize("room", ROOMS)
def test_the_architecture_page_names_every_module(room: str) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    modules = [path for path in ROOT.glob(f"{room}/**/*.py") if path.name != "__init__.py"]

    missing = [str(path.relative_to(ROOT)) for path in modules if path.name not in page]

    assert not missing, f"tell what they are for in ARCHITECTURE.md: {missing}"
