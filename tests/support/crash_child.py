"""A process for tests that kills itself at the fault point named in its environment.

It ingests, seals all that was read, embeds, and builds a new generation. To reach the places of a rebuild, the file of
one session is brought in after the others: its events are late.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from headwater.flows.archive_run import run_archive
from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.storage.active import active_version
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve

home = Home.open(Path(sys.argv[1]))
if os.environ.get("HEADWATER_FAULT", "").startswith(("memory.built", "memory.deleted")):
    session = min(home.journal.glob("*.jsonl"))
    late = session.rename(session.with_suffix(".late"))
    run_ingest(home, IngestOptions(active_version(home), until_idle=True))
    late.rename(session)
run_ingest(home, IngestOptions(active_version(home), until_idle=True))
run_archive(home, older_than_s=-math.inf)
run_embed(home, load(resolve("test-hash", home)), owner="child")
reprocess(home, ReprocessOptions(keep=0))
