"""A process for tests that kills itself at the fault point named in its environment: one ingest, one embed."""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import active_version, resolve

home = Home.open(Path(sys.argv[1]))
run_ingest(home, IngestOptions(active_version(home), until_idle=True))
run_embed(home, load(resolve("test-hash", home)), owner="child")
