"""The installed program's way in: a hook goes straight to its work, everything else to the command line.

`headwater hook` is what a plugin calls for every event. The command line's libraries would take ten times as long to
load as the hook needs, and a word that it does not know would end with 2, which stops an agent.
"""

import os
import sys


def main() -> None:
    """Run the program: as a hook when it is called as one, else a verb. Always ends the process."""
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"} & set(words):
        _hook(words[1:])
    from headwater.surface.cli import main as run  # takes a while to load

    run()


def _hook(words: list[str]) -> None:
    """Record the event on stdin and end with 0, whatever happens."""
    try:
        from headwater.surface import hook

        hook.main(words, sys.stdin.buffer if sys.stdin else None, os.environ)
    finally:
        os._exit(0)  # nothing is buffered, and nobody may learn of anything else
