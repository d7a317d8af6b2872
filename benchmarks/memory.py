"""Threads, transitions, memories and reversals against stories: `python benchmarks/memory.py STORY… --json`.

A story is a folder of the data set (or its path) with events.jsonl, labels.jsonl, facts.jsonl and transitions.jsonl.
The rule's numbers were tuned on en-pay and ko-chat; the others are reported apart. How each figure is counted:

- threads: F1 over pairs of labelled turns (a turn's events always go together) that are in one thread.
- transitions: mean recall over the three types; between sessions at the first turn of the later one.
- must_mention: share of a fact's terms that stand in the summary or topics of a memory with a source of its thread.
- superseded: a mark (two turns) is right for a fact with a successor when both turns are of its thread, the older
  names at least half of the fact's terms and the newer a word of the successor's that the fact has not; else wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import DATA

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.flows.project_memory import Derived, MemoryConfig, derive, in_order
from headwater.flows.sessions import SessionConfig, SessionLogic, SessionState, session_key
from headwater.schemas.events import Draft, Event, Kind
from headwater.schemas.features import text_features
from headwater.storage.journal import RawLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TUNED_ON = ("en-pay", "ko-chat")
TYPES = ("seamless", "topic_shift", "break")


@dataclass(frozen=True)
class Story:
    """A story: its events in order, the thread label of each event, facts and expected transitions."""

    name: str
    events: list[Event]
    labels: dict[str, str]
    facts: list[dict[str, Any]]
    transitions: list[dict[str, Any]]


def load(folder: Path) -> Story:
    """Return a story, its events made from the payloads by the flow's own functions."""
    events = in_order(_events(folder / "events.jsonl"))
    by_key: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        if event.tool is not None and event.tool.use_id:
            by_key[event.session_id, event.tool.use_id].append(event)
        elif event.turn_id:
            by_key[event.session_id, event.turn_id].append(event)
    labels = {}
    for row in _rows(folder / "labels.jsonl"):
        key = row["key"]
        for event in by_key[key["session_id"], key.get("tool_use_id") or key.get("prompt_id")]:
            labels[event.id] = row["thread"]
    return Story(
        folder.name, events, labels, _rows(folder / "facts.jsonl"), _rows(folder / "transitions.jsonl")
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _events(path: Path) -> Iterable[Event]:
    sessions: dict[str, SessionLogic] = {}
    offset = 0
    for row in _rows(path):
        project = row["payload"]["cwd"]
        envelope = {
            "v": 1,
            "id": str(offset),
            "received_at_ns": row["received_at_ns"],
            "agent": "claude-code",
            "host": "bench",
            "project_dir": project,
            "project": project,
            "format": "claude-hook",
            "source": None,
            "payload": row["payload"],
            "clipped": {},
        }
        line = json.dumps(envelope, ensure_ascii=False).encode()
        for record in parse(RawLine("story.jsonl", offset, line)):
            for draft in normalise(record):
                if isinstance(draft, Draft):
                    key = session_key(draft.event)
                    logic = sessions.setdefault(key, SessionLogic(SessionConfig(), SessionState()))
                    event = logic.on_draft(draft).event
                    if event.id:
                        yield event
        offset += len(line) + 1


def pairwise_f1(assigned: Sequence[str], labels: Sequence[str]) -> float:
    """Return F1 over pairs of turns: together in both, of those together in either."""

    def pairs(values: Iterable[Any]) -> int:
        return sum(n * (n - 1) // 2 for n in Counter(values).values())

    together = pairs(zip(assigned, labels, strict=True))
    return 2 * together / max(1, pairs(assigned) + pairs(labels))


def thread_figures(story: Story, derived: Derived) -> dict[str, float]:
    """Return agreement with the labels, and that of one thread for all and one per session."""
    turns = [one for one in derived.assigned if one.turn is not None]
    rows = [
        (one.thread_id, one.events[0].session_id, label)
        for one in turns
        if (label := next((story.labels[e.id] for e in one.events if e.id in story.labels), None)) is not None
    ]
    labels = [label for _, _, label in rows]
    return {
        "pairwise_f1": pairwise_f1([thread for thread, _, _ in rows], labels),
        "one_thread_f1": pairwise_f1(["" for _ in rows], labels),
        "per_session_f1": pairwise_f1([session for _, session, _ in rows], labels),
        "threads_found": len({thread for thread, _, _ in rows}),
        "threads_labelled": len(set(labels)),
    }


def transition_figures(story: Story, derived: Derived) -> dict[str, Any]:
    """Return balanced accuracy of the type, of the type by score, and of always topic_shift."""
    by_event = {one.turn_event_id: one for one in derived.transitions}
    first_of_session: dict[str, Event] = {}
    by_prompt: dict[tuple[str, str | None], Event] = {}
    for event in story.events:
        if event.kind is Kind.PROMPT:
            first_of_session.setdefault(event.session_id, event)
            by_prompt[event.session_id, event.turn_id] = event
    rows: list[tuple[str, str | None, str | None]] = []
    for wanted in story.transitions:
        at = (
            first_of_session.get(wanted["to_session"])
            if "to_session" in wanted
            else by_prompt.get((wanted["session_id"], wanted["at_prompt_id"]))
        )
        found = by_event.get(at.id) if at is not None else None
        types = (None, None) if found is None else (found.type.value, found.score_type.value)
        rows.append((wanted["expected"], *types))
    return {
        "balanced_accuracy": _balanced([(want, got) for want, got, _ in rows]),
        "by_score": _balanced([(want, got) for want, _, got in rows]),
        "always_topic_shift": _balanced([(want, "topic_shift") for want, _, _ in rows]),
        "confusion": dict(sorted(Counter(f"{want}>{got}" for want, got, _ in rows).items())),
    }


def _balanced(rows: Sequence[tuple[str, str | None]]) -> float:
    recalls = []
    for kind in TYPES:
        wanted = [got for want, got in rows if want == kind]
        if wanted:
            recalls.append(sum(got == kind for got in wanted) / len(wanted))
    return sum(recalls) / max(1, len(recalls))


def memory_figures(story: Story, derived: Derived) -> dict[str, Any]:
    """Return the share of must-mention terms found, and what is missing."""
    texts: dict[str, list[str]] = defaultdict(list)
    memories = derived.last_memories().values()
    for memory in memories:
        for thread in {story.labels[id_] for id_ in memory.source_events if id_ in story.labels}:
            texts[thread].append(_flat(memory.summary + " " + " ".join(memory.topics)))
    found, missing = 0, []
    for fact in story.facts:
        for term in fact["must_mention"]:
            if any(_flat(term) in text for text in texts[fact["thread"]]):
                found += 1
            else:
                missing.append(f"{fact['thread']}:{term}")
    return {
        "must_mention": found / max(1, found + len(missing)),
        "terms": found + len(missing),
        "missing": missing,
        "memories": len(memories),
    }


def superseded_figures(story: Story, derived: Derived) -> dict[str, Any]:
    """Return how many reversed facts are marked, and how many marks fit no fact."""
    said: dict[tuple[str, str | None], str] = defaultdict(str)
    for event in story.events:
        if event.kind in (Kind.PROMPT, Kind.RESPONSE):
            said[event.session_id, event.turn_id] += " " + event.content
    texts = {event.id: _flat(said[event.session_id, event.turn_id]) for event in story.events}
    facts = [fact for fact in story.facts if fact["superseded_by"]]
    found, across, wrong = set(), set(), []
    memories = derived.last_memories()
    for mark in derived.marks:
        threads = {story.labels.get(mark.old_event), story.labels.get(mark.new_event)}
        fits = [
            place
            for place, fact in enumerate(facts)
            if threads == {fact["thread"]}
            and 2 * sum(_flat(term) in texts[mark.old_event] for term in fact["must_mention"])
            >= len(fact["must_mention"])
            and any(word in texts[mark.new_event] for word in _new_words(fact))
        ]
        found |= set(fits)
        if mark.old_memory != mark.new_memory and memories[mark.old_memory].superseded_by:
            across |= set(fits)
        if not fits:
            wrong.append([mark.old_event, mark.new_event, round(mark.strength, 2)])
    return {
        "recall": len(found) / max(1, len(facts)),
        "recall_between_memories": len(across) / max(1, len(facts)),
        "wrong": len(wrong),
        "marks": len(derived.marks),
        "facts": len(facts),
        "not_found": [fact["decision"] for place, fact in enumerate(facts) if place not in found],
        "wrong_marks": wrong,
    }


def _new_words(fact: dict[str, Any]) -> set[str]:
    new, old = fact["superseded_by"]["decision"], _flat(fact["decision"])
    words = {_flat(word) for word in text_features(new).topics} | set(re.findall(r"\d+", new))
    return {word for word in words if word not in old}


def _flat(text: str) -> str:
    """Return a text without case, spaces and thousands separators: 72 h is 72h, 10,000 is 10000."""
    return re.sub(r"\s+|(?<=\d),(?=\d{3})", "", unicodedata.normalize("NFKC", text).lower())


def measure(story: Story, config: MemoryConfig) -> dict[str, Any]:
    """Return all figures of one story."""
    derived = derive(
        story.events[0].project, story.events, config, until=story.events[-1].at + timedelta(days=1)
    )
    return {
        "threads": thread_figures(story, derived),
        "transitions": transition_figures(story, derived),
        "memories": memory_figures(story, derived),
        "superseded": superseded_figures(story, derived),
    }


def mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the stories' figures; of wrong marks, the most in one story."""

    def over(group: str, name: str) -> float:
        return round(float(sum(row[group][name] for row in rows)) / len(rows), 4)

    return {
        "threads": {
            name: over("threads", name) for name in ("pairwise_f1", "one_thread_f1", "per_session_f1")
        },
        "transitions": {
            name: over("transitions", name)
            for name in ("balanced_accuracy", "by_score", "always_topic_shift")
        },
        "memories": {"must_mention": over("memories", "must_mention")},
        "superseded": {
            "recall": over("superseded", "recall"),
            "recall_between_memories": over("superseded", "recall_between_memories"),
            "wrong": max(row["superseded"]["wrong"] for row in rows),
        },
    }


def main() -> None:
    """Print one line per story, one for those tuned on and one for the others; the last line is the mean of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stories", nargs="*", default=["en-pay", "ko-chat", "ja-map", "zh-iot"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--json", action="store_true", help="print lines of JSON only")
    arguments = parser.parse_args()
    folders = [
        Path(name) if (Path(name) / "events.jsonl").exists() else arguments.data / "stories" / name
        for name in arguments.stories
    ]
    results = {folder.name: measure(load(folder), MemoryConfig()) for folder in folders}
    for name, row in results.items():
        print(json.dumps({"story": name, **row}, ensure_ascii=False, indent=None if arguments.json else 1))
    tuned = [row for name, row in results.items() if name in TUNED_ON]
    others = [row for name, row in results.items() if name not in TUNED_ON]
    for group, rows in (("tuned on", tuned), ("held out", others)):
        if rows:
            print(json.dumps({"group": group, "stories": len(rows), **mean(rows)}))
    print(json.dumps(mean(list(results.values()))))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
