"""The words of a query, and how often each stands in a text: whole words in any ending, parts of identifiers, CJK.

The full-text index finds candidates; it knows no endings and counts over all projects. What it found is counted here
once more, over the candidates of one project alone.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headwater.schemas import limits
from headwater.schemas.features import stem, text_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

K1 = 1.2  # how soon a word said again counts less
B = 0.75  # how much a long text has to say a word more often
_PREFIX_CHARS = 5  # from here on a stem is long enough to stand for all words that begin with it
_PART_WEIGHT = 0.5  # of the first two syllables of a longer Korean word: its ending may be any

_WORD = re.compile(r"[A-Za-z]+|[0-9]+(?:\.[0-9]+)*")
_CAMEL = re.compile(r"([a-z0-9])([A-Z])")
_RUN = re.compile(r"[a-z0-9]+|[\uac00-\ud7a3]+|[\u3040-\u30ff\u4e00-\u9fff]+")
_GAP = r"[^a-z0-9\x{ac00}-\x{d7a3}\x{3040}-\x{30ff}\x{4e00}-\x{9fff}]{1,4}"  # between two words side by side
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
_STOP_TEXT = """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each ever every few for from further get gets give had has have having
    he her here hers him his how i if in into is it its itself just let lets like me might more most much my no nor
    not of off on once only or other our ours out over own please per same say says she should so some such than that
    the their theirs them then there these they this those through to too under until up us use used using very was
    we went were what when where which while who whom whose why will with within without would you your yours tell
    s t d m re ve ll
"""
_STOP = frozenset(_STOP_TEXT.split())
_NO_SIDE_TEXT = """
    what where when who how why which does did do is are was were the a an of to in on for with and or it its that this
    be by at as from has have had i my we our you not can could should would
"""
_NO_SIDE = frozenset(_NO_SIDE_TEXT.split())  # of a pair; most other words are one: `go camping`, `no longer`
_SIGNS = (string.punctuation + string.whitespace).encode()  # what ASCII has of the classes in `letters`
_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_ENDINGS = ("s", "es", "ed", "d", "ing", "er", "ers")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query: a pattern for texts that went through `flat`, its weight, and how it is written."""

    text: str
    pattern: str
    weight: float = 1.0


def terms_of_query(query: str) -> list[Term]:
    """Return the words of a query that say what it is about, each once, at most QUERY_TERMS.

    English and parts of identifiers by stem; numbers; Korean without particles; runs of Han as pairs; Katakana.
    """
    spaced = _CAMEL.sub(r"\1 \2", query)
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(spaced)))
    said = [word for word in words if word not in _STOP and (len(word) > 1 or word.isdigit())] or words
    found = {stem(word): Term(word, _pattern(word)) for word in said}
    if not query.isascii():
        for topic in text_features(query).topics:
            if not topic.isascii():
                found.setdefault(topic, Term(topic, re.escape(topic)))
                if _HANGUL.fullmatch(topic) and len(topic) > 2:
                    found.setdefault(topic[:2], Term(topic[:2], topic[:2], _PART_WEIGHT))
    return list(found.values())[: limits.QUERY_TERMS]


def pairs_of_query(query: str) -> list[str]:
    """Return a pattern for each two words that stand side by side in a query, for texts that went through `flat`.

    Words that say nothing are no side of a pair; at most QUERY_PAIRS.
    """
    words = _RUN.findall(_CAMEL.sub(r"\1 \2", query).lower())
    pairs = [
        f"{re.escape(one)}{_GAP}{re.escape(two)}"
        for one, two in pairwise(words)
        if one not in _NO_SIDE and two not in _NO_SIDE
    ]
    return list(dict.fromkeys(pairs))[: limits.QUERY_PAIRS]


def with_endings(terms: Sequence[Term]) -> str:
    """Return the words of a query for a search that knows no endings: each English one in its usual forms as well."""
    words: dict[str, None] = {}
    for term in terms:
        words[term.text] = None
        base = stem(term.text)
        if term.text.isascii() and term.text.isalpha() and len(base) > 2:
            forms = [base, base + "e", *(base + ending for ending in _ENDINGS)]
            if base.endswith("y"):
                forms += [base[:-1] + "ies", base[:-1] + "ied"]
            words |= dict.fromkeys(forms)
    return " ".join(words)


def flat(texts: pl.Series) -> pl.Series:
    """Return texts for `counts`: lower case, identifiers taken apart, not longer than LEXICON_CHARS."""
    return (
        texts.fill_null("")
        .str.slice(0, limits.LEXICON_CHARS)
        .str.replace_all(r"([a-z0-9])([A-Z])", "$1 $2")
        .str.replace_all("_", " ", literal=True)
        .str.to_lowercase()
    )


def letters(texts: pl.Series) -> pl.Series:
    """Return texts in lower case without space and signs."""
    said = texts.to_list()
    plain = [
        one.encode().translate(_LOWER, _SIGNS).decode() if one.isascii() else None for one in said
    ]  # three times as fast
    found = pl.Series(plain, dtype=pl.String)
    if None not in plain:
        return found
    other = texts.filter(found.is_null()).str.to_lowercase().str.replace_all(r"[\s\p{P}\p{S}]+", "")
    return found.scatter(found.is_null().arg_true(), other)


def counts(texts: pl.Series, terms: Sequence[Term]) -> Matrix:
    """Return how often each term (column) stands in each text (row) that went through `flat`."""
    if not terms or texts.is_empty():
        return np.zeros((len(texts), len(terms)))
    each = [pl.col("text").str.count_matches(term.pattern).alias(str(n)) for n, term in enumerate(terms)]
    return (
        texts.alias("text").to_frame().select(each).to_numpy().astype(float)
    )  # in one pass: each costs 0.2 ms


def presence(texts: pl.Series, patterns: Sequence[str]) -> Matrix:
    """Return 1 where a pattern (column) stands in a text (row) that went through `flat`, else 0."""
    if not patterns or texts.is_empty():
        return np.zeros((len(texts), len(patterns)))
    each = [pl.col("text").str.contains(pattern).alias(str(n)) for n, pattern in enumerate(patterns)]
    return texts.alias("text").to_frame().select(each).to_numpy().astype(float)


def rarity(found: Matrix, terms: Sequence[Term], total: int) -> npt.NDArray[np.float64]:
    """Return the weight of each term: the rarer among `total` texts, the more; as in BM25."""
    texts_with = (found > 0).sum(axis=0)
    weights = np.array([term.weight for term in terms])
    rare: npt.NDArray[np.float64] = weights * np.log1p(
        (max(total, len(found)) - texts_with + 0.5) / (texts_with + 0.5)
    )
    return rare


def bm25(
    found: Matrix, lengths: npt.NDArray[np.float64], rare: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return how much each text says of the query, in [0, 1): 1 would be all of it, without end."""
    whole = rare.sum()
    if not len(found) or whole <= 0:
        return np.zeros(len(found))
    usual = max(lengths.mean(), 1.0)
    norm = K1 * (1 - B + B * lengths / usual)
    score: npt.NDArray[np.float64] = (found / (found + norm[:, None])) @ rare / whole
    return score


def _pattern(word: str) -> str:
    if not word.isalpha():
        return rf"(?-u:\b){re.escape(word)}(?-u:\b)"
    base = stem(word)
    if base.endswith("y"):
        return rf"(?-u:\b){base[:-1]}(?:y|ies|ied|ying|ys)(?-u:\b)"
    if len(base) >= _PREFIX_CHARS:
        return rf"(?-u:\b){base}"
    return rf"(?-u:\b){base}{base[-1]}?(?:e|es|ed|d|s|r|er|ers|ing|ings)?(?-u:\b)"
