"""What benchmarks share: where data is, medians, and the result file."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DATA = Path(os.environ.get("HEADWATER_BENCH_DATA", ROOT.parent / "shared" / "data"))


def arguments(what: str) -> argparse.Namespace:
    """Return the arguments that every benchmark takes: --data FOLDER, --json."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON only")
    return parser.parse_args()


def story_lines(data: Path) -> list[dict[str, Any]]:
    """Return the stamped hook payloads of all stories."""
    return [line for story in stories(data) for line in story]


def stories(data: Path) -> list[list[dict[str, Any]]]:
    """Return the stamped hook payloads of each story."""
    return [
        [json.loads(line) for line in _open(path)] for path in sorted(data.glob("stories/*/events.jsonl"))
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def write_result(name: str, result: dict[str, Any], *, as_json: bool) -> None:
    """Write `benchmarks/results/<name>.json` and print it; with the machine's kind, never its name."""
    full = {
        "benchmark": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        **result,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps(full, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(json.dumps(full, ensure_ascii=False) if as_json else json.dumps(full, indent=2, ensure_ascii=False))
    sys.stdout.flush()


def _open(path: Path) -> Iterator[str]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        yield from file
