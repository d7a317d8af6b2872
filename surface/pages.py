"""A long text in pages of a bounded number of tokens, each with what leads to the next. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.query.budget import estimate_tokens
from headwater.schemas.errors import InputError
from headwater.schemas.ids import digest
from headwater.schemas.text import boundary

_LINE_CHARS = 16_000  # of one line that are looked at: a page of one endless line still ends


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a text: characters from `start` to `end` of `total`; `cursor` leads on, "" on the last page."""

    text: str
    start: int
    end: int
    total: int
    cursor: str


def page_of(text: str, cursor: str, budget_tokens: int) -> Page:
    """Return the page where a cursor stands ("": the first), of at most so many tokens by their estimate.

    The pages of a text, put together, are the text. They end at a line's end when one is near. Raises InputError for a
    cursor that is none, or that is of another text: what is stored changed meanwhile, or the arguments did.
    """
    mark = digest("page", text)[:6]
    start = _start(text, cursor, mark)
    end = _end(text, start, budget_tokens)
    return Page(text[start:end], start, end, len(text), f"{end}-{mark}" if end < len(text) else "")


def _start(text: str, cursor: str, mark: str) -> int:
    if not cursor:
        return 0
    place, _, found = cursor.partition("-")
    if not (place.isascii() and place.isdigit() and len(place) < 10) or not 0 < int(place) < len(text):
        raise InputError(
            "cursor",
            f"wanted one from an answer, got {cursor!r:.40}",
            "call again without cursor, from the start",
        )
    if found != mark:
        problem = "is of another answer: what is stored changed meanwhile, or the arguments did"
        raise InputError("cursor", problem, "call again without cursor, from the start")
    return int(place)


def _end(text: str, start: int, budget_tokens: int) -> int:
    left = budget_tokens
    place = start
    while place < len(text):
        line_end = text.find("\n", place) + 1 or len(text)
        line = text[place : min(line_end, place + _LINE_CHARS)]
        cost = estimate_tokens(line)
        if cost <= left:
            place += len(line)
            left -= cost
        elif place == start or len(line) > _LINE_CHARS // 2:
            return place + _fitting(line, left) if left > budget_tokens // 4 or place == start else place
        else:
            return place
    return place


def _fitting(line: str, budget_tokens: int) -> int:
    """Return how many characters of a line cost no more than the budget, one at least."""
    low, high = 1, len(line)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if estimate_tokens(line[:middle]) <= budget_tokens else (low, middle)
    return boundary(line, low) or low
