"""Cutting a text into what a model can read at once. Pure: places of tokens in, pieces of the text out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

Span = tuple[int, int]
"""Of a token: its first character, and the one after its last."""


def chunk_text(
    text: str,
    spans: Sequence[Span],
    *,
    chunks_max: int,
    tokens_max: int = limits.CHUNK_TOKENS,
    overlap_tokens: int = limits.CHUNK_OVERLAP_TOKENS,
) -> tuple[str, ...]:
    """Return the pieces of a text that get vectors, in order; none for an empty text, one for any other without tokens.

    `spans` are the text's tokens, each (first character, the one after its last), by the model that will read the
    pieces. Each piece is a substring, from the start of one token to the end of another; see `windows`.
    """
    if not text.strip():
        return ()
    if (
        not spans
    ):  # signs that the model drops: the item is embedded all the same, else it would be missed for ever
        return (text.strip()[:tokens_max],)
    cuts = windows(len(spans), tokens_max, min(overlap_tokens, tokens_max - 1), chunks_max)
    return tuple(text[spans[first][0] : spans[end - 1][1]] for first, end in cuts)


def windows(tokens: int, tokens_max: int, overlap_tokens: int, chunks_max: int) -> list[tuple[int, int]]:
    """Return (first, end) token numbers of each chunk.

    At most `chunks_max` chunks of at most `tokens_max` tokens; the first starts at the start and the last ends at the
    end. When that is enough for everything, neighbours share at least `overlap_tokens` and all are about equally
    long, so that none is a useless rest. Else they are full and stand evenly apart: two are head and tail.
    """
    if tokens <= tokens_max:
        return [(0, tokens)] if tokens else []
    needed = -(-(tokens - overlap_tokens) // (tokens_max - overlap_tokens))
    count = min(needed, chunks_max)
    length = tokens_max
    if needed <= chunks_max:
        length = -(-(tokens + (count - 1) * overlap_tokens) // count)
    room = tokens - length
    starts = [room * n // (count - 1) for n in range(count)] if count > 1 else [0]
    return [(start, start + length) for start in starts]
