"""Which script a text is written in, by a cheap rule, and whether a model reads them all."""

from __future__ import annotations

import re

import polars as pl

_HANGUL = "[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"
_KANA = "[\u3041-\u30ff]"
_HAN = "[\u3400-\u4dbf\u4e00-\u9fff]"
_LATIN = "[A-Za-z\u00c0-\u024f]"
_HEAD_CHARS = 2000  # of a text that are looked at
_SHARE = 8  # one character in so many says it: code and names in Latin letters stand among other writing
_MANY = re.compile(r"multilingual|-e5|bge-m3|labse|paraphrase-xlm", re.IGNORECASE)


def scripts(texts: pl.Series) -> pl.Series:
    """Return `latin`, `hangul`, `kana` or `han` for each text; Japanese is kana, Chinese is han."""
    head = texts.fill_null("").str.slice(0, _HEAD_CHARS)
    frame = pl.DataFrame(
        {
            "hangul": head.str.count_matches(_HANGUL),
            "kana": head.str.count_matches(_KANA),
            "han": head.str.count_matches(_HAN),
            "latin": head.str.count_matches(_LATIN),
        }
    ).with_columns(pl.all().cast(pl.Int64))
    east = pl.col("hangul") + pl.col("kana") + pl.col("han")
    chosen = (
        pl.when((east == 0) | (east * _SHARE < pl.col("latin")))
        .then(pl.lit("latin"))
        .when(pl.col("hangul") >= pl.col("kana") + pl.col("han"))
        .then(pl.lit("hangul"))
        .when((pl.col("kana") > 0) & (pl.col("kana") * _SHARE >= pl.col("han")))
        .then(pl.lit("kana"))
        .otherwise(pl.lit("han"))
    )
    return frame.select(chosen.alias("script")).get_column("script")


def reads_all(embedding_version: str) -> bool:
    """Return whether the model of a version reads other scripts than Latin, as far as its name tells."""
    return _MANY.search(embedding_version) is not None
