"""Extractive summaries: what was asked, decided or found, changed, and left open; in the words that were used."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from headwater.flows.statements import sentences, values
from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.schemas.features import stem, text_features
from headwater.schemas.text import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.flows.windows import Piece

_OPEN = re.compile(
    r"\b(?:still to|left (?:to|open)|to ?do|later|remains?|next step|not yet|postponed?|leave .{1,20} out|follow-?up)\b"
    r"|남았|남은 일|나중에|아직|다음 ?주|다음 스프린트|이어서 할"
    r"|残って|残り|あとで|後で|次回|まだ|今後"
    r"|还没|待办|以后再|剩下|下次|留到|之后再",
    re.IGNORECASE,
)
_CODE = re.compile(r"`([^`\n]{2,60})`")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_SENTENCE_CHARS = 320  # a longer one is cut: a pasted log line is no sentence
_LABELS = ("Asked", "Found", "Open")
_PER_SENTENCE = 25  # what a sentence costs beside its length: few full sentences read better than many crumbs


def summarise(pieces: Sequence[Piece], *, chars_max: int, files_max: int) -> str:
    """Return the summary of a window, at most `chars_max` characters.

    Sentences are chosen one by one by how much they add: names, numbers and subjects that no chosen one has, per
    length. They stand in the order in which they were said, under what they are.
    """
    lines = _candidates(pieces)
    changed = _changed(pieces, files_max)
    room = chars_max - len(changed) - (1 if changed else 0)
    chosen = _choose(lines, room)
    parts: dict[str, list[str]] = {label: [] for label in _LABELS}
    for place in sorted(chosen):
        label, text, _ = lines[place]
        parts[label].append(text)
    made = [f"{label}: " + " ".join(texts) for label, texts in parts.items() if texts]
    if changed:
        made.insert(len(made) - bool(parts["Open"]), changed)
    return cut("\n".join(made), chars_max) if made else ""


def _candidates(pieces: Sequence[Piece]) -> list[tuple[str, str, Counter[str]]]:
    found: list[tuple[str, str, Counter[str]]] = []
    seen: set[str] = set()
    for piece in pieces:
        for text, line in _lines(piece):
            if text not in seen:
                seen.add(text)
                found.append(line)
    return found


@lru_cache(limits.SUMMARY_PIECES_KEPT)
def _lines(piece: Piece) -> tuple[tuple[str, tuple[str, str, Counter[str]]], ...]:
    """Return the sentences of a piece, each with its label, text and worth.

    A session that goes on is told again with the same ones.
    """
    texts = (one_line(sentence, _SENTENCE_CHARS) for sentence in sentences(piece.text))
    return tuple(
        (text, (_label(piece, text), _ended(text), _content(text))) for text in texts if len(text) >= 2
    )


def _label(piece: Piece, text: str) -> str:
    return "Asked" if piece.kind is Kind.PROMPT else "Open" if _OPEN.search(text) else "Found"


def _ended(text: str) -> str:
    return text if text[-1] in ".!?。！？:;…" else text + "."


def _content(text: str) -> Counter[str]:
    """Return what a sentence holds and its worth: measures and names of code most, then numbers, then subjects."""
    worth: Counter[str] = Counter()
    features = text_features(text)
    for topic in features.topics:
        worth[stem(topic)] = 1
    for number in _NUMBER.findall(text):
        worth["#" + number] = 2
    for kind, amount in values(text):
        worth[f"#{amount}{kind}"] = 2
    for name in (*features.entities, *features.files, *_CODE.findall(text)):
        worth["`" + name.lower()] = 3
    return worth


def _choose(lines: Sequence[tuple[str, str, Counter[str]]], room: int) -> set[int]:
    """Return the places of the chosen sentences: the first question always, then the best per character."""
    chosen: set[int] = set()
    labels: set[str] = set()
    first = next((place for place, line in enumerate(lines) if line[0] == "Asked"), None)
    gains = [sum(worth.values()) for _, _, worth in lines]  # what each would add now
    holders: dict[str, list[int]] = {}  # name that no chosen line has -> places that hold it
    for place, (_, _, worth) in enumerate(lines):
        for name in worth:
            holders.setdefault(name, []).append(place)
    sizes = [len(text) + 1 for _, text, _ in lines]
    left = list(range(len(lines)))
    while True:
        best, best_rate = None, 0.0
        heads = {label: 0 if label in labels else len(label) + 2 for label in _LABELS}
        left = [place for place in left if place not in chosen and sizes[place] <= room]  # room never grows
        for place in left:
            size = sizes[place] + heads[lines[place][0]]
            if size > room:
                continue
            rate = gains[place] / (size + _PER_SENTENCE)
            if place == first and not chosen:
                best, best_rate = place, rate
                break
            if rate > best_rate:
                best, best_rate = place, rate
        if best is None:
            return chosen
        label, _, worth = lines[best]
        room -= sizes[best] + heads[label]
        labels.add(label)
        chosen.add(best)
        for name in worth:
            for place in holders.pop(name, ()):
                gains[place] -= lines[place][2][name]


def _changed(pieces: Sequence[Piece], files_max: int) -> str:
    counts = Counter(path for piece in pieces for path in piece.changed)
    if not counts:
        return ""
    order = {path: place for place, path in enumerate(counts)}
    files = sorted(counts, key=lambda path: (-counts[path], order[path]))
    rest = len(files) - files_max
    named = ", ".join(cut(path, 80) for path in files[:files_max])
    return f"Changed: {named}" + (f" and {rest} more." if rest > 0 else ".")
