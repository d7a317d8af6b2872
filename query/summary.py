"""One line out of a long text: summaries of the index, previews of the timeline. Pure functions."""

from __future__ import annotations

import re
from itertools import islice

from headwater.schemas import limits
from headwater.schemas.text import boundary, cjk_runs, clean_text, code_words, cut

_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+#.-]*)[^\n]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
# a sentence ends at a stop before a space (so that `a.b` and `1.5` stay whole), at a full-width stop, at a line's end;
# what closes a quotation belongs to it, and the commonest abbreviations end none
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bDr\.)(?<!\bMr\.)\s+|(?<=[.!?][\"')\]”’])\s+"
    r"|(?<=[。！？｡])(?![」』）)”’。！？])|(?<=[。！？｡][」』）)”’])|\n+"
)
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_LATIN_MIN = 2  # shorter words tell nothing
_WEIGHT_MAX = 8  # a longer word tells no more


def query_terms(query: str) -> dict[str, int]:
    """Return the words of a query, folded, with their weights: longer words tell more, CJK counts by pairs."""
    query = query[: limits.QUERY_CHARS]
    terms: dict[str, int] = {}
    for word in code_words(query).split():
        terms[word.casefold()] = _WEIGHT_MAX
    runs = cjk_runs(query).split()
    for run in runs:
        for n in range(max(1, len(run) - 1)):
            terms[run[n : n + 2]] = len(run[n : n + 2]) * 2
    for word in _WORD.findall(query):
        if len(word) >= _LATIN_MIN and not cjk_runs(word):
            terms.setdefault(word.casefold(), min(len(word), _WEIGHT_MAX))
    return dict(islice(terms.items(), limits.SUMMARY_TERMS))


def summary(content: str, query: str = "", *, label: str = "", chars_max: int = limits.SUMMARY_CHARS) -> str:
    """Return one line of at most `chars_max` characters that says what a text is about; never empty.

    With a query it shows the passage that matches it best, else the text's beginning. Code fences are abbreviated
    (`[python code]`) unless the match is inside one. `label` stands in for a text that is empty.
    """
    text = clean_text(content)
    terms = query_terms(query) if query else {}
    prose = abbreviate_code(text)
    found = _passage(prose, terms, chars_max) or (_passage(text, terms, chars_max) if prose != text else None)
    return (
        found
        or _beginning(prose, chars_max, chars_max // 3)
        or f"[{cut(_flat(label) or 'empty', chars_max - 2)}]"
    )


def preview(content: str, *, label: str = "", chars_max: int = limits.PREVIEW_CHARS) -> str:
    """Return the beginning of a text as one line of at most `chars_max` characters; never empty.

    It ends with a sentence when that fills most of the line, else at a word.
    """
    return (
        _beginning(abbreviate_code(clean_text(content)), chars_max, chars_max * 2 // 3)
        or f"[{cut(_flat(label) or 'empty', chars_max - 2)}]"
    )


def first_sentence(content: str, *, label: str, chars_max: int = limits.SUMMARY_CHARS) -> str:
    """Return the first sentence of a text as one line, cut when it is too long; `label` when there is no text."""
    line = _flat(abbreviate_code(clean_text(content)))
    end = _SENTENCE_END.search(line)
    return cut(line[: end.start()] if end else line, chars_max).strip() or label


def abbreviate_code(text: str) -> str:
    """Return the text with each fenced block as `[python code]`, or `[code]` when it names no language."""
    return _FENCE.sub(lambda match: f"[{match[1]} code]" if match[1] else "[code]", text)


def _flat(text: str) -> str:
    return _SPACE.sub(" ", _CONTROL.sub(" ", text)).strip()


def _beginning(text: str, chars_max: int, chars_min: int) -> str:
    """Return whole sentences from the start while they fit, when they fill at least `chars_min`; else cut."""
    line = _flat(text)
    if len(line) <= chars_max:
        return line
    end = 0
    for sentence in _SENTENCE_END.finditer(line):
        if sentence.start() > chars_max:
            break
        end = sentence.start()
    return line[:end].strip() if end >= chars_min else cut(line, chars_max)


def _passage(text: str, terms: dict[str, int], chars_max: int) -> str | None:
    """Return the sentence that holds the most of the terms, the part around its first when it is too long."""
    best, best_weight = "", 0
    for sentence in _SENTENCE_END.split(text) if terms else ():
        folded = sentence.casefold()
        weight = sum(value for term, value in terms.items() if term in folded)
        if weight > best_weight:
            best, best_weight = sentence, weight
    if not best_weight:
        return None
    line = _flat(best)
    return line if len(line) <= chars_max else _around(line, terms, chars_max)


def _around(line: str, terms: dict[str, int], chars_max: int) -> str:
    folded = (
        line.lower()
    )  # casefold may change the length, lower case nearly never does; a slip only moves the window
    places = sorted(place for term in terms if (place := folded.find(term)) >= 0)
    if not places or places[0] < chars_max * 2 // 3:
        return cut(line, chars_max)
    start = boundary(line, max(0, min(places[0] - chars_max // 4, len(line) - chars_max + 1)))
    space = line.find(" ", start, places[0])
    if space >= 0:
        start = space + 1
    return "…" + cut(line[start:], chars_max - 1)
