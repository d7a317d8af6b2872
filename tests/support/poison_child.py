"""One vector worker in a process of its own, which dies at the text "poison": `poison_child.py HOME`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headwater.flows.vector_worker import VectorWorker
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.home import Home


class Deadly(HashEncoder):
    """Kills its process for a poisoned text."""

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Die, or hash."""
        if "poison" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_documents(texts, between)


sys.stdout.write(json.dumps(VectorWorker(Home.open(Path(sys.argv[1])), Deadly()).process_all()))
