"""The form of the code, as rules that read it. Each rule is also fed a fault, to show that it can find one.

A rule takes a file's path below the repository's root and its text, and returns findings, `line: what`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "storage", "flows", "query", "surface")
TEXT_SUFFIXES = {
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".in",
    ".lock",
    ".json",
    ".jsonl",
    ".html",
    ".js",
    ".css",
    ".ipynb",
}
TEXT_NAMES = {"Makefile", "run", ".gitignore"}
LEFT_OUT = (".", "build", "dist", "__pycache__")  # how the names of such folders start

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

# The clock's own module, and what runs in a bare interpreter, where nothing of ours can be imported.
CLOCK_READERS = {"schemas/clock.py", "surface/hook.py"}
CLOCK_NAMES = {
    *(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter") for unit in ("", "_ns")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
}
PRINTERS = ("surface/", "benchmarks/", "scripts/", "notebooks/")
# Put together here, so that this file does not hold them itself.
LEFT_TO_DO = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
MACHINE_PATH = re.compile("|".join(f"(?<![\\w.~])/{name}/" for name in ("work", "root", "farm", "opt")))

FLOW_FILES = {f"flows/{name}.py" for name in ("ingest", "embed", "archive", "reprocess")}
# Steps that run no function: they only change the shape of a stream.
SHAPE_STEPS = {"drop_session_key", "merge_decisions", "merge_summaries"}

Rule = Callable[[str, str], Iterator[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def file_length(path: str, text: str) -> Iterator[str]:
    """A source file is short enough to be read at once."""
    lines = len(text.splitlines())
    if path.endswith(".py") and lines > FILE_LINES_MAX:
        yield f"1: {lines} lines, at most {FILE_LINES_MAX}"


def function_length(path: str, text: str) -> Iterator[str]:
    """A function fits on a screen."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Return local name -> dotted origin of everything imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full dotted name of `a.b.c`, with the import behind `a` put in; "" for other expressions."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        start = dotted(node.value, names)
        return f"{start}.{node.attr}" if start else ""
    return ""


def one_clock(path: str, text: str) -> Iterator[str]:
    """Only the clock's module reads the clock; everything else is handed the time."""
    if path.partition("/")[0] not in PACKAGES or path in CLOCK_READERS:
        return
    tree = ast.parse(text)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and dotted(node, names) in CLOCK_NAMES:
            yield f"{node.lineno}: {dotted(node, names)} outside schemas/clock.py"


def no_print(path: str, text: str) -> Iterator[str]:
    """Only the surfaces, and scripts that are run by hand, print."""
    if path.startswith(PRINTERS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{node.lineno}: print outside surface/"


def nothing_left_to_do(path: str, text: str) -> Iterator[str]:
    """Nothing is put off in a comment or a text."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := LEFT_TO_DO.search(line):
            yield f"{number}: {found[0]}"


def no_machine_path(path: str, text: str) -> Iterator[str]:
    """No file holds a path of the machine it was written on."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield f"{number}: {found[0]}"


def test_docstrings(path: str, text: str) -> Iterator[str]:
    """Each test states the behaviour it tests."""
    if not path.startswith("tests/"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS) and node.name.startswith("test") and not ast.get_docstring(node):
            yield f"{node.lineno}: {node.name} has no docstring"


test_docstrings.__test__ = False  # type: ignore[attr-defined] # a rule, in spite of its name


def public_docstrings(path: str, text: str) -> Iterator[str]:
    """Everything public in the packages says what it is."""
    if path.partition("/")[0] not in PACKAGES:
        return
    tree = ast.parse(text)
    if text.strip() and not ast.get_docstring(tree):
        yield "1: the module has no docstring"
    waiting: list[ast.Module | ast.ClassDef] = [tree]
    while waiting:
        for node in waiting.pop().body:
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node) and not is_foreign(node):
                yield f"{node.lineno}: {node.name} has no docstring"
            if isinstance(node, ast.ClassDef):
                waiting.append(node)


def is_foreign(node: ast.AST) -> bool:
    """Tell whether a method is an override or an overload, which is described where it is first declared."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(item, ast.Name) and item.id in {"override", "overload"} for item in decorators)


def step_names(path: str, text: str) -> Iterator[str]:
    """In a flow file, a step's id is the name of the function it runs."""
    if path not in FLOW_FILES:
        return
    for node in ast.walk(ast.parse(text)):
        func = node.func if isinstance(node, ast.Call) else None
        if not (isinstance(node, ast.Call) and isinstance(func, ast.Attribute)):
            continue
        if not (isinstance(func.value, ast.Name) and func.value.id == "op"):
            continue
        step = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if not isinstance(step, str):
            yield f"{node.lineno}: the first argument of op.{func.attr} is not a step id"
        elif step not in SHAPE_STEPS and step not in called_names(node):
            yield f"{node.lineno}: step '{step}' runs no function of that name"


def called_names(call: ast.Call) -> set[str]:
    """Return the last parts of the names in a call's arguments."""
    arguments = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    nodes = [node for argument in arguments for node in ast.walk(argument)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


CODE_RULES: tuple[Rule, ...] = (
    file_length,
    function_length,
    one_clock,
    no_print,
    test_docstrings,
    public_docstrings,
    step_names,
)
TEXT_RULES: tuple[Rule, ...] = (nothing_left_to_do, no_machine_path)


def texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of every text file that people or tools of this repository wrote."""
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = sorted(name for name in folders if name == ".ci" or not name.startswith(LEFT_OUT))
        for name in sorted(files):
            if name in TEXT_NAMES or Path(name).suffix in TEXT_SUFFIXES:
                yield (here / name).as_posix(), (ROOT / here / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", CODE_RULES, ids=lambda rule: rule.__name__)
def test_code_keeps_the_rule(rule: Rule) -> None:
    """No source file breaks the rule."""
    code = [(path, text) for path, text in texts() if path.endswith(".py")]
    assert {path.split("/")[0] for path, _ in code} >= set(PACKAGES)
    assert [f"{path}:{found}" for path, text in code for found in rule(path, text)] == []


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_text_keeps_the_rule(rule: Rule) -> None:
    """No text file of the repository breaks the rule."""
    assert [f"{path}:{found}" for path, text in texts() for found in rule(path, text)] == []


LONG_FUNCTION = '"""M."""\ndef f():\n    """D."""\n' + "    x = 1\n" * FUNCTION_LINES_MAX
FAULTS: list[tuple[Rule, str, str]] = [
    (file_length, "query/a.py", "x = 1\n" * (FILE_LINES_MAX + 1)),
    (function_length, "query/a.py", LONG_FUNCTION),
    (one_clock, "flows/a.py", "import time\nx = time.time()\n"),
    (one_clock, "flows/a.py", "import time as t\nx = t.perf_counter_ns()\n"),
    (one_clock, "surface/a.py", "from time import monotonic as m\nx = m()\n"),
    (one_clock, "query/a.py", "from datetime import UTC, datetime\nx = datetime.now(UTC)\n"),
    (one_clock, "query/a.py", "import datetime as dt\nfrom_field = dt.datetime.utcnow\n"),
    (one_clock, "query/a.py", "from datetime import date\ndef f(): return date.today()\n"),
    (no_print, "storage/a.py", "def f():\n    print(1)\n"),
    (no_print, "tests/test_a.py", "print(1)\n"),
    (nothing_left_to_do, "docs/a.md", "one\n# " + "TO" + "DO: two\n"),
    (nothing_left_to_do, "query/a.py", "x = 1  # " + "FIX" + "ME\n"),
    (no_machine_path, "Makefile", "PYTHON = /ro" + "ot/.pyenv/python\n"),
    (no_machine_path, "docs/a.md", "see `/wo" + "rk/notes.md`\n"),
    (test_docstrings, "tests/test_a.py", "class TestA:\n    def test_a(self): assert True\n"),
    (public_docstrings, "query/a.py", "x = 1\n"),
    (public_docstrings, "query/a.py", '"""M."""\ndef f(): ...\n'),
    (public_docstrings, "query/a.py", '"""M."""\nclass A:\n    """A."""\n    def b(self): ...\n'),
    (step_names, "flows/ingest.py", 'x = op.map("parse_it", lines, parse)\n'),
    (step_names, "flows/embed.py", "x = op.map(step, lines, parse)\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), FAULTS)
def test_planted_fault_is_reported(rule: Rule, path: str, text: str) -> None:
    """Each rule finds the fault it is there for, once."""
    assert len(list(rule(path, text))) == 1


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (one_clock, "schemas/clock.py", "import time\nx = time.time()\n"),
        (one_clock, "benchmarks/bench_a.py", "import time\nx = time.perf_counter()\n"),
        (one_clock, "flows/a.py", "x = event.time.time()\ny = clock.now()\n"),
        (no_print, "surface/a.py", "print(1)\n"),
        (public_docstrings, "query/a.py", '"""M."""\ndef _f(): ...\nclass _A:\n    def b(self): ...\n'),
        (step_names, "flows/ingest.py", 'x = op.map("parse", lines, steps.parse)\n'),
        (step_names, "flows/ingest.py", 'op.output("write", written, write(settler))\n'),
        (step_names, "flows/ingest.py", f'x = op.key_rm("{min(SHAPE_STEPS)}", keyed)\n'),
        (no_machine_path, "docs/a.md", "a network/root/node, ./work/a and ~/work/a\n"),
    ],
)
def test_what_is_allowed_is_not_reported(rule: Rule, path: str, text: str) -> None:
    """What the rules allow passes."""
    assert list(rule(path, text)) == []


def test_every_rule_is_exercised() -> None:
    """No rule stands here without a fault that it finds."""
    assert {rule for rule, _, _ in FAULTS} == {*CODE_RULES, *TEXT_RULES}
