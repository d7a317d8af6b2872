from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from import_bench import bring_in, kinds, rows
from journal_lines import DATA, append, live

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas.events import Part
from headwater.storage.home import Home

HOOKS = DATA / "claude_code_live.jsonl.gz"
TRANSCRIPTS = DATA / "claude_code_live_transcripts"
CODEX_HOOKS = DATA / "codex_live" / "hook_events.jsonl.gz"
ROLLOUT = next((DATA / "codex_live").glob("rollout-*"))
UNION = {"session_start": 21, "session_end": 19, "prompt": 20, "response": 30, "tool": 30, "compact": 1}


@pytest.fixture(autouse=True)
def test_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded here."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")


def imported(folder: Path, *paths: Path) -> pl.DataFrame:
    """Return the events of a new home after its imports, by id."""
    home = Home.open(folder)
    for path in paths:
        bring_in(home, path)
    return rows(home).sort("id")


@pytest.mark.parametrize(("hooks", "log"), [(HOOKS, TRANSCRIPTS), (CODEX_HOOKS, ROLLOUT)])
def test_hooks_and_logs_give_one_event_per_fact_in_both_orders(
    tmp_path: Path, hooks: Path, log: Path
) -> None:
    """Whichever comes first, every column of every event is the same."""
    one = imported(tmp_path / "a", hooks, log)
    other = imported(tmp_path / "b", log, hooks)
    assert one.equals(other)
    assert one["id"].is_unique().all()


def test_union_holds_each_fact_once(tmp_path: Path) -> None:
    """Prompts, answers, calls and the compaction that both told are one; what only one told is there too."""
    found = imported(tmp_path / "a", TRANSCRIPTS, HOOKS)
    assert kinds(found) == UNION
    both = int(Part.HOOK | Part.TRANSCRIPT)
    told = found.filter((pl.col("parts") & both) == both)
    assert kinds(told) == {"session_start": 16, "prompt": 18, "response": 21, "tool": 29, "compact": 1}
    prompts = found.filter(pl.col("kind") == "prompt")
    assert prompts["content"].to_list().count("SAY hello twice") == 2  # two prompts, and two answers
    assert prompts["turn_id"].is_unique().all()


def test_codex_union_holds_each_fact_once(tmp_path: Path) -> None:
    """Hooks and rollout of one session tell the same five facts."""
    found = imported(tmp_path / "a", ROLLOUT, CODEX_HOOKS)
    assert kinds(found) == dict.fromkeys(("session_start", "session_end", "prompt", "response", "tool"), 1)
    tool = found.filter(pl.col("kind") == "tool")["tool"][0]
    assert (tool["name"], tool["ok"], tool["use_id"]) == ("Bash", True, "call_4cede3a1")


@pytest.mark.parametrize("seed", range(2))
def test_files_in_any_order_give_the_same_events(tmp_path: Path, seed: int) -> None:
    """Files brought in a few at a time, forks before what they copy, tell each fact once."""
    files = sorted(TRANSCRIPTS.rglob("*.jsonl.gz"))
    random.Random(seed).shuffle(files)
    home = Home.open(tmp_path / "home")
    bring_in(home, HOOKS)
    for start in range(0, len(files), 5):
        bring_in(home, *files[start : start + 5])
    assert kinds(rows(home)) == UNION


def test_import_meets_what_hooks_wrote(tmp_path: Path) -> None:
    """Transcripts of sessions in the journal add only what no hook told."""
    home = Home.open(tmp_path / "home")
    for stamped in live():
        append(home.journal, stamped)
    run_ingest(home, IngestOptions(None, until_idle=True))
    before = rows(home).height
    report = bring_in(home, TRANSCRIPTS)
    assert report["events"] == sum(UNION.values()) - before == 13
    assert bring_in(home, TRANSCRIPTS)["events"] == 0


def test_cleared_session_is_linked_by_hooks_alone(tmp_path: Path) -> None:
    """The session after a /clear names the one before it, whichever half of the pair is read first."""
    for name, stamped in (("a", live()), ("b", live()[::-1])):
        home = Home.open(tmp_path / name)
        for one in stamped:
            append(home.journal, one)
            if one["payload"].get("reason") == "clear" or one["payload"].get("source") == "clear":
                run_ingest(home, IngestOptions(None, until_idle=True))
        run_ingest(home, IngestOptions(None, until_idle=True))
        linked = rows(home).filter(pl.col("prev_session_id").is_not_null())
        assert linked["role"].to_list() == ["SessionStart:clear"]
        assert linked["session_id"][0].startswith("fec6f471")
        assert linked["prev_session_id"][0].startswith("80ded3a5")
