from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from recall_home import SECRET, recall_home

from headwater.query.format import COLUMNS, width
from headwater.storage.home import Home
from headwater.surface import client
from headwater.surface.cli import cli

Run = Callable[..., str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with two projects."""
    return recall_home(tmp_path_factory.mktemp("recall") / "home")


@pytest.fixture
def run(home: Home) -> Run:
    """Run a verb in this process on project one; `run("search", "x", code=2)`."""

    def ran(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(cli, ["--home", str(home.root), *words])
        assert done.exit_code == code, (done.output, done.exception)
        return done.output

    return ran


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What verbs ask for, and nothing is answered."""
    made: list[dict[str, Any]] = []

    def ask(_: Home, operation: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
        made.append({"operation": operation, **args})
        return {"text": "", "unknown": [], "more": 0}

    monkeypatch.setattr(client, "ask", ask)
    return made


@pytest.fixture
def seoul(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A person nine hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_every_option_is_asked_for(run: Run, asked: list[dict[str, Any]], seoul: None) -> None:
    """Options become arguments; days are local and whole; what is not given is left to the settings."""
    run(
        "search", "a", "b", "--top-k", "3", "--min-score", "0.4", "--max-tokens", "500", "--disclosure", "timeline",
        "--no-expand-timeline", "--expand-details", "--since", "2026-03-24", "--until", "2026-03-24",
        "--kind", "prompt", "--kind", "tool", "--session", "s1", "--agent", "codex", "--file", "./src/a.py",
        "--project", "name",
    )  # fmt: skip
    (found,) = asked
    wanted = {
        "operation": "search", "query": "a b", "top_k": 3, "min_score": 0.4, "max_tokens": 500,
        "disclosure": "timeline", "expand_timeline": False, "expand_details": True,
        "since": "2026-03-23T15:00:00.000000Z", "until": "2026-03-24T15:00:00.000000Z",
        "kinds": ["prompt", "tool"], "session": "s1", "agent": "codex", "file": "src/a.py", "project": "name",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    asked.clear()
    run("search", "a")
    assert set(asked[0]) == {"operation", "query", "text", "disclosure", "project", "all_projects", "here"}


def test_times_of_a_timeline(run: Run, asked: list[dict[str, Any]], seoul: None) -> None:
    """A time is taken as it is, `until` exclusive; a zone of its own holds; a day ends with the next."""
    run("timeline", "--since", "2026-03-24T10:00", "--until", "2026-03-24T12:00Z")
    assert (asked[0]["since"], asked[0]["until"]) == (
        "2026-03-24T01:00:00.000000Z",
        "2026-03-24T12:00:00.000000Z",
    )
    run("timeline", "--until", "2026-12-31")
    assert asked[1]["until"] == "2026-12-31T15:00:00.000000Z"
    for words in (("--since", "soon"), ("--until", "2026-02-30"), ()):
        run("timeline", *words, code=2)
    run("search", "x", "--expand-details", "--kind", "speech", code=2)


def test_path_in_the_project_is_named_as_events_name_it(
    run: Run, asked: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there is told relative to the project, from whichever folder."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    monkeypatch.chdir(tmp_path / "src")
    for given in ("a.py", str(tmp_path / "src" / "a.py")):
        run("search", "x", "--file", given)
    assert [one["file"] for one in asked] == ["src/a.py", "src/a.py"]


def test_filters_hold(run: Run) -> None:
    """Kind, session, file, time and project each keep out what is not of them."""
    much = ("--min-score", "0", "--disclosure", "index", "--top-k", "100", "--max-tokens", "20000")
    project = ("--project", "/p/one", *much)
    everything = run("search", "retry webhook", *project)
    assert all(part in everything for part in (" prompt\n", " response\n", " insight\n", " tool\n"))
    assert SECRET not in everything
    only = run("search", "retry webhook", *project, "--kind", "prompt")
    assert " response\n" not in only
    touching = run("search", "retry webhook", *project, "--file", "src/retry.py")
    assert [name for name in range(40) if f"\nevt_s1p{name} " in "\n" + touching] == [0, 10, 20, 30]
    assert "Nothing found." in run("search", "retry", *project, "--session", "s2")
    assert "Nothing found." in run("search", "retry", *project, "--agent", "codex")
    assert "Nothing found." in run("search", "retry", *project, "--until", "2026-01-04")
    assert SECRET in run("search", "retry", "--all-projects", *much)


def test_answer_of_all_layers_fits_a_terminal(run: Run) -> None:
    """Index, timeline and whole text, nothing wider than 80 columns, and what it costs."""
    text = run("search", "webhook retry number 7", "--project", "/p/one", "--disclosure", "details")
    assert "> 2026-01-05" in text
    assert "children: evt_s1r7" in text
    assert "tokens, user_request" in text
    assert max(width(line) for line in text.splitlines()) <= COLUMNS


def test_a_stretch_of_time(run: Run) -> None:
    """Without ids the timeline is that of the time; what is cut is told."""
    text = run(
        "timeline", "--since", "2026-01-05", "--until", "2026-01-05", "--project", "/p/one", "--limit", "4"
    )
    assert [name for name in ("p0", "r0", "p1", "r1", "p2") if f"evt_s1{name}" in text] == [
        "p0",
        "r0",
        "p1",
        "r1",
    ]
    assert "79 more: raise --limit, or narrow --since and --until" in text
    assert "Nothing happened then." in run("timeline", "--since", "2027-01-01", "--project", "/p/one")
    assert SECRET not in text


def test_memories_and_sessions_are_shown(run: Run) -> None:
    """All kinds of items have a timeline and a whole text."""
    text = run("show", "mem_one", "ses_s1", "evt_s1p1", "--project", "/p/one")
    assert "The webhook waits for the ledger." in text
    assert "children: evt_s1p39, evt_s1r39" in text
    assert "> 2026-01-05" in run("timeline", "mem_one", "--project", "/p/one")
    assert run("show", "mem_two", "--project", "/p/one", code=1) == ""
