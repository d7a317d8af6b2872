"""What we depend on is declared, explained and locked, and nothing else is."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "storage", "flows", "query", "surface")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Installed by the Makefile's pin, for its build depends on the machine.
UNLOCKED = "torch"


def normalised(name: str) -> str:
    """Return a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements: list[str]) -> list[str]:
    """Return the distributions that requirement lines ask for."""
    return [normalised(re.split(r"[\s<>=!~\[;]", line, maxsplit=1)[0]) for line in requirements]


RUNTIME = names_of(PROJECT["dependencies"])
DEV = names_of(PROJECT["optional-dependencies"]["dev"])


def explained(heading: str) -> list[str]:
    """Return the packages of the table below a heading of docs/dependencies.md that have a reason."""
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) \| *(.*?) *\|$", section, re.MULTILINE)
    return [name for name, reason in rows if name != "package" and len(reason.split()) > 2]


def locked() -> dict[str, tuple[str, int]]:
    """Return name -> (version, number of hashes) of the lock."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z0-9])", text)[1:]
    heads = [re.match(r"([\w.-]+)==(\S+) \\\n", block) for block in blocks]
    assert all(heads), "a lock entry is not NAME==VERSION"
    return {
        normalised(head[1]): (head[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)))
        for head, block in zip(heads, blocks, strict=True)
        if head
    }


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md explains what pyproject.toml asks for, in the same two lists, and nothing else."""
    assert explained("Runtime") == sorted(RUNTIME)
    assert explained("Development") == sorted(DEV)


def test_lock_holds_every_dependency_with_hashes() -> None:
    """The lock pins each declared dependency but torch, and each entry carries its hashes."""
    lock = locked()

    assert {*RUNTIME, *DEV} - {UNLOCKED} <= lock.keys()
    assert UNLOCKED not in lock
    assert not [name for name, (_, hashes) in lock.items() if hashes == 0]


def test_lock_brings_no_cuda() -> None:
    """Nothing in the lock belongs to a CUDA build of torch."""
    assert [name for name in locked() if re.match(r"nvidia-|cuda-|triton", name)] == []


def test_lock_names_no_host_and_no_path() -> None:
    """The lock is good for every index: it holds no address, no folder and no pip option."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert re.findall(r"^.*/.*$|^-.*$", text, re.MULTILINE) == []


def test_environment_is_what_the_lock_says() -> None:
    """The tests run against the locked versions, and the lock is closed: what those need is in it or is torch."""
    lock = locked()
    wanted = {name: version for name, (version, _) in lock.items()}
    needed = set()
    for name in (*lock, UNLOCKED):
        for line in metadata.requires(name) or []:
            if "extra ==" not in line and "; " not in line:
                needed.add(names_of([line])[0])

    assert {name: metadata.version(name) for name in lock} == wanted
    assert needed - lock.keys() - {UNLOCKED} == set()


def test_imports_are_declared() -> None:
    """Every library that a package imports is a runtime dependency of ours, not somebody else's by chance."""
    owners = metadata.packages_distributions()
    undeclared = set()
    for path in (path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            for top in {module.partition(".")[0] for module in modules}:
                if top != "headwater" and top not in sys.stdlib_module_names:
                    declared = {normalised(owner) for owner in owners.get(top, [])} & set(RUNTIME)
                    undeclared |= set() if declared else {f"{path.relative_to(ROOT)}: {top}"}

    assert undeclared == set()
