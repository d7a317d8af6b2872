"""What is built is whole, and runs from the wheel alone, whatever lies in the folder it is started in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "storage", "flows", "query", "surface")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = SETTINGS["project"]["version"]
ROOT_FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "MANIFEST.in")
NOT_OURS = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True)
class Built:
    """The archives, and a fresh environment that has the wheel in it."""

    wheel: Path
    sdist: Path
    environment: Path


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command outside the source tree; return its stdout, fail with all it said."""
    names = [name for name in os.environ if not name.startswith(("HEADWATER_", "PYTHON", "PIP_"))]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={name: os.environ[name] for name in names} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def package_files() -> set[str]:
    """Return every file of the packages, code and data, as a path below the root."""
    paths = [path for name in PACKAGES for path in (ROOT / name).rglob("*")]
    return {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist, from it the wheel, and install that into a fresh environment; nothing is downloaded."""
    work = tmp_path_factory.mktemp("wheel")
    source, out, environment = work / "source", work / "out", work / "environment"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=NOT_OURS)
    shutil.copytree(ROOT / "docs", source / "docs")
    for name in (*ROOT_FILES, "Makefile", "requirements.lock"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=work)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")

    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "--disable-pip-version-check",
        "--quiet",
        "install",
    )
    run(*pip, "--no-deps", "--no-index", wheel, cwd=work)
    # The dependencies come from the environment that runs the tests. Its own .pth files, with our editable install,
    # are not read from there: Python reads them in its own site-packages only.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=work).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return Built(wheel, sdist, environment)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a user's folder with packages of our folders' names; importing one of them would fail."""
    for name in (*PACKAGES, "headwater"):
        (tmp_path / name).mkdir()
        text = f"raise RuntimeError('ran the code of a user: {name}')\n"
        (tmp_path / name / "__init__.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_packages_are_the_folders() -> None:
    """pyproject.toml lists exactly the folders that hold Python files, and maps the top ones."""
    settings = SETTINGS["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}

    assert sorted(settings["packages"]) == sorted(f"headwater.{'.'.join(folder.parts)}" for folder in folders)
    assert settings["package-dir"] == {f"headwater.{name}": name for name in PACKAGES}


def test_packages_are_typed() -> None:
    """Every folder with Python files tells type checkers that it has types."""
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}

    assert [folder.relative_to(ROOT) for folder in folders if not (folder / "py.typed").is_file()] == []


@pytest.mark.slow
def test_wheel_holds_every_file(built: Built) -> None:
    """The wheel has each file of the packages below headwater/, the licence, and nothing else."""
    names = set(zipfile.ZipFile(built.wheel).namelist())
    info = f"headwater-{VERSION}.dist-info/"

    assert {name for name in names if not name.startswith(info)} == {
        f"headwater/{name}" for name in package_files()
    }
    assert f"{info}licenses/LICENSE" in names


@pytest.mark.slow
def test_sdist_holds_every_file(built: Built) -> None:
    """The sdist has each file of the packages, and what is needed to build from it and to read about it."""
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert package_files() | set(ROOT_FILES) | {"docs/dependencies.md"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("python_path", ["", "."])
def test_program_never_runs_the_users_packages(built: Built, hostile: Path, python_path: str) -> None:
    """`headwater --version` answers from the wheel in a folder that has its own schemas/, storage/ and so on."""
    if python_path:
        shutil.rmtree(hostile / "headwater")  # a whole package of our name, put first on purpose, does win
    env = {"PYTHONPATH": python_path} if python_path else {}

    printed = run(built.environment / "bin" / "headwater", "--version", cwd=hostile, **env)

    assert printed.split() == ["headwater", VERSION]


@pytest.mark.slow
def test_installed_modules_come_from_the_wheel(built: Built, hostile: Path) -> None:
    """Each package is loaded from the fresh environment, not from the source tree."""
    code = "; ".join(f"import headwater.{name}; print(headwater.{name}.__file__)" for name in PACKAGES)

    printed = run(built.environment / "bin" / "python", "-P", "-c", code, cwd=hostile)

    assert [Path(line).is_relative_to(built.environment) for line in printed.split()] == [True] * len(
        PACKAGES
    )
