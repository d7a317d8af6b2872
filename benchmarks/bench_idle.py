"""What the running stream costs when nothing happens: CPU share and memory of ingest and server, the model loaded."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil
from common import arguments, story_lines, write_result

from headwater.storage.home import Home
from headwater.surface import capture, client, processes
from headwater.surface.importers.hooks import agent_of
from headwater.surface.verbs.lifecycle import ensure_up

SILENCE_S = 5.0  # idle again within this
IDLE_S = 20.0
LIMIT_S = 300.0


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        lines = story_lines(args.data)[:200]
        for line in lines:
            payload = line["payload"]
            envelope = capture.build_envelope(
                payload,
                agent=agent_of(payload),
                received_at_ns=line["received_at_ns"],
                project_dir=payload["cwd"],
                project=payload["cwd"],
            )
            name = capture.journal_name(envelope["agent"], payload["session_id"])
            capture.append_line(str(home.journal / name), capture.encode_line(envelope))
        try:
            ensure_up(home)
            processes.wait_until(lambda: client.ask_server(home, "counts", {})["vectors"] > 100, LIMIT_S)
            client.ask_server(home, "search", {"query": "refund test", "all_projects": True})
            time.sleep(SILENCE_S)
            running = {
                role: psutil.Process(pid) for role, pid in processes.pids(home).items() if pid is not None
            }
            before = {role: sum(p.cpu_times()[:2]) for role, p in running.items()}
            time.sleep(IDLE_S)
            share = {role: (sum(p.cpu_times()[:2]) - before[role]) / IDLE_S for role, p in running.items()}
            rss_mb = {role: round(p.memory_info().rss / 1e6) for role, p in running.items()}
        finally:
            processes.stop_all(home)
    result = {
        "cpu_share": {role: round(value, 4) for role, value in share.items()},
        "cpu_share_all": round(sum(share.values()), 4),
        "cpu_share_bar": 0.06,
        "rss_mb": rss_mb,
        "rss_bar_mb": {"server": 800, "ingest": 300},
    }
    write_result("idle", result, as_json=args.json)


if __name__ == "__main__":
    main()
