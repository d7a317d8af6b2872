from __future__ import annotations

from typing import Any

from journal_lines import encode, envelope, payload

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.schemas.events import Draft, Part
from headwater.storage.journal import RawLine


def several(told: str = "k1") -> dict[str, Any]:
    """Return a transcript line with a beginning, a text and two calls."""
    blocks = [
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "u1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "u2", "name": "Bash", "input": {"command": "pwd"}},
    ]
    return {
        "type": "assistant",
        "sessionId": "s1",
        "timestamp": "2026-02-20T10:00:00Z",
        "message": {"content": blocks},
        "headwater": {"line": told, "session_start": {"at": "2026-02-20T09:00:00Z", "source": "startup"}},
    }


def transcript(content: Any) -> RawLine:
    """Return a journal line around a transcript's."""
    source = {"file": "t.jsonl", "offset": 7, "n": 0, "time": "transcript"}
    return RawLine("f@1", 0, encode(envelope(content, format="claude-transcript", source=source)))


def test_line_with_several_facts_has_one_fate(bench: Any) -> None:
    """All facts of a line become events; the line counts once, and is known as told."""
    bench.run([transcript(several())])
    assert len(bench.events()) == 4
    assert bench.fates() == {"event": 1}
    assert bench.known.logs.told("k1")
    assert not bench.known.logs.told("k2")


def test_line_cut_between_batches_loses_nothing(bench: Any) -> None:
    """The facts of one line may come in two batches: its fate comes with the last, the best of all."""
    [record] = parse(transcript(several()))
    drafts = [one for one in normalise(record) if isinstance(one, Draft)]
    assert [draft.last for draft in drafts] == [False, False, False, True]
    for part in (drafts[:2], drafts[2:]):
        numbered = [bench.repeats.number_repeats(draft) for draft in part]
        bench.settler.enqueue(bench.writer.write_events(numbered))
        assert bench.fates() == ({} if part[-1] is not drafts[-1] else {"event": 1})
    assert len(bench.events()) == 4


def test_line_that_only_adds_is_merged(bench: Any) -> None:
    """A line whose facts are all known from a hook counts as merged, and again as a duplicate."""
    bench.run([RawLine("g@1", 0, encode(envelope(payload("UserPromptSubmit", prompt="go", prompt_id="p1"))))])
    line = {"type": "user", "sessionId": "s1", "promptId": "p1", "timestamp": "2026-02-20T10:00:00Z"}
    bench.run([transcript(line | {"message": {"content": "go"}})])
    assert bench.fates() == {"event": 1, "merged": 1}
    [event] = bench.events().values()
    assert (event.at_source, event.parts) == ("transcript", Part.HOOK | Part.TRANSCRIPT)
