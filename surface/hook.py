"""The capture hook: one event of a coding agent on stdin becomes one journal line.

Run as `python -I -S <this file> --home HOME --agent NAME`, once per event, in whatever folder the user works in. It
always exits with 0, writes nothing to stdout but the context that a running server has for the start of a session or a
prompt, and reads nothing but the standard library and its neighbours here: as a
program it names its own folder as the package `headwater.surface` and nothing else, so no module of the user's folder
is ever run, and the neighbours come from the byte-code cache (compiling them took longer than all their work).

As a module, `headwater.surface.hook`, it is the one import for everything that writes journal lines.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH100, PTH120

import os
import sys
import time

if __name__ != "__main__":
    from headwater.surface.capture import (
        FILE_NAME_CHARS,
        append_line,
        build_envelope,
        encode_line,
        home_from_env,
        journal_name,
    )
    from headwater.surface.cleaning import (
        CLIP_CHARS,
        ENVELOPE_TEXT_CHARS,
        NESTING_MAX,
        clean_payload,
        clean_text,
    )
    from headwater.surface.failures import count_failure, read_failures
    from headwater.surface.projects import resolve_project
    from headwater.surface.redaction import redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO, NoReturn

_ASKING = ("SessionStart", "UserPromptSubmit")

__all__ = [
    "CLIP_CHARS",
    "ENVELOPE_TEXT_CHARS",
    "FILE_NAME_CHARS",
    "NESTING_MAX",
    "append_line",
    "build_envelope",
    "clean_payload",
    "clean_text",
    "count_failure",
    "encode_line",
    "home_from_env",
    "journal_name",
    "main",
    "read_failures",
    "redact",
    "resolve_project",
]


def main(argv: "Sequence[str]", stdin: "BinaryIO | None", env: "Mapping[str, str]") -> int:
    """Record the event on `stdin`; return 0 whatever happens.

    What cannot be written is counted in the home (`read_failures`), or said in one line on stderr when even that fails.
    The line is in the journal on return, not yet forced to the disk.
    """
    received_at_ns = time.time_ns()
    started_s = time.monotonic()
    home = ""
    try:
        from headwater.surface import capture  # the time comes first

        options = capture.parse_arguments(argv)
        home = options.home or capture.home_from_env(env)
        envelope = capture.record(home, options.agent, stdin, env, received_at_ns)
        if envelope is not None:
            # after the record, so that neither a slow server nor a start of one can cost an event
            _tell(home, envelope, started_s)
            _start(home, envelope, env)
    except BaseException as error:  # noqa: BLE001 - a hook that fails stops the agent's work
        _report(home, error)
    return 0


def _tell(home: str, envelope: "dict[str, Any]", started_s: float) -> None:
    """Hand context to the agent when the server has some in time; else all goes on as if we were not there."""
    payload = envelope["payload"]
    if not isinstance(payload, dict) or payload.get("hook_event_name") not in _ASKING:
        return
    try:
        from headwater.surface import asking  # few events ask

        if not asking.wants_context(envelope):
            return
        line = asking.context_line(home, envelope, started_s, time.monotonic)
        while line:
            line = line[os.write(1, line) :]
    except Exception:  # noqa: BLE001 - the event is recorded; whatever became of the question, a hook says nothing of it
        return


def _start(home: str, envelope: "dict[str, Any]", env: "Mapping[str, str]") -> None:
    """Start the stream when a session begins or goes on, it is not up, and `install` was told that this may be."""
    payload = envelope["payload"]
    if not isinstance(payload, dict) or payload.get("hook_event_name") not in _ASKING:
        return
    try:
        from headwater.surface import autostart  # as above

        autostart.start(home, env)
    except Exception:  # noqa: BLE001 - as above; that nothing runs is told by `headwater status`
        return


def _report(home: str, error: BaseException) -> None:
    """Count the failure in the home, or say it."""
    try:
        from headwater.surface.failures import count_failure  # only the rare way out needs it

        count_failure(home)
    except BaseException as second:  # noqa: BLE001 - see above
        text = f"headwater: event not recorded: {error!r}; not counted: {second!r}. Fix: headwater doctor"
        line = " ".join(text.split())[:500] + "\n"
        try:
            os.write(2, line.encode("utf-8", "replace"))
        except OSError:
            return  # nobody is left to tell


def _name_our_folder() -> None:
    """Make `headwater.surface` importable from this file's folder, without touching `sys.path`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, path in (("headwater", []), ("headwater.surface", [folder])):
        package = type(sys)(name)
        package.__path__ = path
        sys.modules[name] = package


def _run() -> "NoReturn":
    try:
        _name_our_folder()
        main(sys.argv[1:], sys.stdin.buffer if sys.stdin else None, os.environ)
    except BaseException as error:  # noqa: BLE001 - an interrupt outside of main
        _report("", error)
    finally:
        os._exit(0)  # no clean-up: nothing is buffered, and a broken stderr would change the exit code


if __name__ == "__main__":
    _run()
