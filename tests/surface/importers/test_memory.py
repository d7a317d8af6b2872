from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transcript_lines import answered, called, gave, said

CHILD = """
import resource, sys
from pathlib import Path
from headwater.storage.home import Home
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths
home = Home.open(Path(sys.argv[1]))
append_paths(home, [Path(sys.argv[2])], None, Progress("r"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
append_paths(home, [Path(sys.argv[3])], None, Progress("r"))
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""


def history(path: Path, turns: int) -> Path:
    """Write a long session: about 20 KB a turn."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(turns):
            text = f"turn {n} " + "words of an output that nobody reads again " * 220
            for one in (
                said(n, f"do {n}", uuid=f"a{n}"),
                called(n, f"t{n}", command="make") | {"uuid": f"b{n}"},
                gave(n, f"t{n}", text, uuid=f"c{n}", toolUseResult={"stdout": text, "stderr": ""}),
                answered(n, f"done {n}", uuid=f"d{n}"),
            ):
                file.write(
                    json.dumps(
                        one | {"timestamp": f"2026-03-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z"}
                    )
                    + "\n"
                )
    return path


@pytest.mark.slow
def test_memory_does_not_grow_with_the_history(tmp_path: Path) -> None:
    """Ten times the history takes little more memory: lines are read one at a time."""
    small, big = history(tmp_path / "small.jsonl", 50), history(tmp_path / "big.jsonl", 1_000)
    assert big.stat().st_size > 15_000_000
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "home"), str(small), str(big)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 8_000_000
