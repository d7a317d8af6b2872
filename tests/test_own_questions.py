"""The question set about the recorded projects is complete: kinds, languages, and gold that can be looked up."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "own"
KINDS = (
    "identifier",
    "path",
    "error",
    "paraphrase",
    "decision",
    "time",
    "cross_session",
    "cross_language",
)
EVENT_ID = re.compile(r"evt_[0-9a-hj-km-np-tv-z]{12}")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Return the questions."""
    text = (FOLDER / "questions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_there_are_enough_questions_of_each_kind(rows: list[dict[str, Any]]) -> None:
    """At least 160 questions, 20 of them without an answer, at least 20 of every other kind, none asked twice."""
    kinds = Counter(row["kind"] for row in rows)
    assert len(rows) >= 160
    assert kinds.pop("none") == 20
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 20
    assert len({row["question"] for row in rows}) == len(rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_each_row_has_the_fields_that_the_readme_names(rows: list[dict[str, Any]]) -> None:
    """Six fields each, well-formed event ids as gold, and gold exactly where there is an answer."""
    for row in rows:
        assert set(row) == {"id", "project", "kind", "question", "lang", "gold"}
        assert row["project"] in {"spotter", "repiq", "claude-code-live"}
        assert all(EVENT_ID.fullmatch(id_) for id_ in row["gold"]), row["id"]
        assert len(set(row["gold"])) == len(row["gold"])
        assert (row["gold"] == []) == (row["kind"] == "none")


def test_questions_across_languages_are_not_in_the_language_of_the_recording(
    rows: list[dict[str, Any]],
) -> None:
    """Korean and Japanese about the English recording, Korean and English about the Japanese one."""
    asked = {(row["project"], row["lang"]) for row in rows if row["kind"] == "cross_language"}
    assert asked == {("spotter", "ko"), ("spotter", "ja"), ("repiq", "ko"), ("repiq", "en")}


def test_the_readme_counts_what_is_there(rows: list[dict[str, Any]]) -> None:
    """The table of kinds in the README has the numbers of the file."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE))
    assert {kind: int(number) for kind, number in told.items()} == Counter(row["kind"] for row in rows)
