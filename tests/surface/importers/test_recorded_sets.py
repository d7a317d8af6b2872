from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from import_bench import bring_in, kinds, matches, rows, shared_data
from journal_lines import DATA
from set_facts import REPIQ, SPOTTER, Fact
from set_facts_more import ATTIO, CODEX_LIVE, LIVE, LOCALPUSH, TEMPLAR

from headwater.storage.home import Home

OURS = DATA / "claude_code_live_transcripts"
# set -> (path, counts of records by fate, events by kind, facts); the counts follow from the files' own line types
SETS: dict[str, tuple[str, dict[str, int], dict[str, int], list[Fact]]] = {
    "live": (
        "",
        {"lines": 549, "lines_with_events": 81, "merged": 31, "duplicates": 20, "noise": 417},
        {"session_start": 17, "prompt": 20, "response": 30, "tool": 30, "compact": 1},
        LIVE,
    ),
    "codex-live": (
        "",
        {"lines": 18, "lines_with_events": 4, "merged": 1, "duplicates": 0, "noise": 13},
        {"session_start": 1, "prompt": 1, "response": 1, "tool": 1},
        CODEX_LIVE,
    ),
    "spotter": (
        "claude-code-spotter-en",
        {"lines": 9384, "lines_with_events": 1511, "merged": 981, "duplicates": 0, "noise": 6892},
        {"session_start": 8, "prompt": 17, "response": 513, "tool": 976, "compact": 5},
        SPOTTER,
    ),
    "repiq": (
        "claude-code-repiq-ja",
        {"lines": 5830, "lines_with_events": 1829, "merged": 1131, "duplicates": 0, "noise": 2870},
        {"session_start": 12, "prompt": 160, "response": 538, "tool": 1129, "compact": 2},
        REPIQ,
    ),
    "attio": (
        "hooks-attio-en/chat.json.gz",
        {"lines": 752, "lines_with_events": 296, "merged": 172, "duplicates": 0, "noise": 284},
        {"session_start": 2, "prompt": 11, "response": 112, "tool": 172, "compact": 1},
        ATTIO,
    ),
    "templar": (
        "hooks-templar-en/chat.json.gz",
        {"lines": 1118, "lines_with_events": 374, "merged": 206, "duplicates": 0, "noise": 538},
        {"session_start": 2, "prompt": 5, "response": 162, "tool": 206, "compact": 1},
        TEMPLAR,
    ),
    "localpush": (
        "codex-localpush",
        {"lines": 4760, "lines_with_events": 1179, "merged": 735, "duplicates": 0, "noise": 2846},
        {"session_start": 6, "prompt": 53, "response": 374, "tool": 745, "compact": 1},
        LOCALPUSH,
    ),
}
LOCAL = {"live": OURS, "codex-live": DATA / "codex_live"}


class Imported:
    """A set after its import."""

    def __init__(self, name: str, home: Home, path: Path) -> None:
        self.name = name
        self.home = home
        self.path = path
        self.report = bring_in(home, path)
        self.rows = rows(home)


@pytest.fixture(scope="module", params=SETS)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    """Each set, imported once."""
    name = request.param
    path = LOCAL.get(name) or shared_data() / SETS[name][0]
    if name == "codex-live":
        path = next(path.glob("rollout-*"))
    if not path.exists():
        pytest.skip(f"the full set is not here: {path.name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
        yield Imported(name, Home.open(tmp_path_factory.mktemp(name) / "home"), path)


def test_every_record_is_accounted_for(done: Imported) -> None:
    """Each record of the set has one fate, none is quarantined, and the counts are those of the files."""
    wanted = SETS[done.name][1]
    assert {name: done.report[name] for name in wanted} == wanted
    assert done.report["quarantined"] == done.report["times_replaced"] == 0
    assert done.report["left_out"] == []


def test_events_by_kind_are_those_of_the_files(done: Imported) -> None:
    """As many prompts, answers, calls and compactions as the files hold."""
    assert kinds(done.rows) == SETS[done.name][2]
    assert done.report["events"] == done.rows.height


def test_facts_read_by_hand_are_there(done: Imported) -> None:
    """Who said what when, what was called, how it ended, on which files, and what belongs together."""
    for fact in SETS[done.name][3]:
        assert matches(done.rows, fact), f"{fact} is not there"


def test_order_of_a_session_is_that_of_its_facts(done: Imported) -> None:
    """Facts read by hand stand in the order of their times."""
    for session in {fact[0] for fact in SETS[done.name][3]}:
        times = sorted(fact[1] for fact in SETS[done.name][3] if fact[0] == session)
        of_session = done.rows.filter(pl.col("session_id").str.starts_with(session))
        stamps = [at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] for at in of_session["at"]]
        places = [stamps.index(time) for time in times]
        assert places == sorted(places)


def test_time_is_the_agents_own(done: Imported) -> None:
    """No event stands at the time of its import."""
    assert set(done.rows["at_source"]) == {"transcript"}


def test_result_belongs_to_its_call(done: Imported) -> None:
    """Every call has a name, and none is told twice."""
    tools = done.rows.filter(pl.col("kind") == "tool").unnest("tool")
    assert "unknown" not in set(tools["name"])
    assert tools["use_id"].drop_nulls().is_unique().all()


def test_again_adds_nothing(done: Imported) -> None:
    """A second import finds every line told before, and the journal does not grow."""
    before = sum(file.stat().st_size for file in done.home.journal.iterdir())
    again = bring_in(done.home, done.path)
    assert (again["lines"], again["events"], again["merged"]) == (done.report["lines"], 0, 0)
    assert again["lines_with_events"] == again["quarantined"] == 0
    assert sum(file.stat().st_size for file in done.home.journal.iterdir()) == before
    assert rows(done.home).equals(done.rows)
