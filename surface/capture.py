"""From an event on stdin to a line in the journal: the steps of the capture hook, each usable by importers.

Standard library only, and little of it: the hook loads this for every event.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH100, PTH103, PTH111, PTH117, PTH118, PTH120

import os
import sys

from headwater.surface.cleaning import clean_payload, clean_text, valid_text
from headwater.surface.projects import resolve_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO

ENVELOPE_VERSION = 1
FILE_NAME_CHARS = 120  # of a journal file name without .jsonl: file systems allow 255 bytes
STDIN_BYTES = 64 * 1024 * 1024  # of an event that are kept in memory: the biggest seen was 20 MB
_HEAD_BYTES = (
    8192  # of a journal file: the project stands before the payload, after paths of PATH_MAX at most
)
_BLOCK_BYTES = 256 * 1024  # one read of stdin: above a pipe's size
_FORMATS = {"claude-code": "claude-hook", "codex": "codex-hook"}
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_HASH_CHARS = 12
_APPEND = (
    os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
)  # a pipe there must not block us


class Arguments:
    """What the command line says; unknown words are passed over, for a hook never stops its agent."""

    __slots__ = ("agent", "home")

    def __init__(self, home: str, agent: str) -> None:
        """Keep the absolute home ("" when not named) and the agent."""
        self.home = home
        self.agent = agent


def parse_arguments(argv: "Sequence[str]") -> Arguments:
    """Read `--home DIR` and `--agent NAME`, also with `=`."""
    found = {"--home": "", "--agent": ""}
    words = list(argv)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name in found:
            found[name] = value if equals else (words.pop(0) if words else "")
    home = os.path.abspath(os.path.expanduser(found["--home"])) if found["--home"] else ""
    return Arguments(home, found["--agent"] or "claude-code")


def home_from_env(env: "Mapping[str, str]") -> str:
    """Return HEADWATER_HOME, else the platform's user data folder, as `platformdirs` names it. Never raises."""
    named = env.get("HEADWATER_HOME", "")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    data = env.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):
        return os.path.join(data, "headwater")
    parts = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "share")
    return os.path.join(_user_folder(env), *parts, "headwater")


def _user_folder(env: "Mapping[str, str]") -> str:
    folder = env.get("HOME", "")
    if os.path.isabs(folder):
        return folder
    try:
        import pwd  # only without HOME

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return "/nonexistent"  # the system's own word for nobody's home; writing there fails and is said


def record(
    home: str, agent: str, stdin: "BinaryIO | None", env: "Mapping[str, str]", received_at_ns: int
) -> "dict[str, Any] | None":
    """Append the event on `stdin` to the journal; return its envelope, None when there was nothing to record.

    Raises whatever stood in the way: the caller counts it.
    """
    from headwater.surface import guards  # importers have guards of their own

    if guards.disabled(env):
        return None
    raw = read_event(stdin)
    if not raw.strip() or guards.paused(home, received_at_ns):
        return None
    payload = parse_event(raw)
    cwd = payload.get("cwd") if isinstance(payload, dict) else None
    own = env.get("CLAUDE_PROJECT_DIR", "") if agent == "claude-code" else ""
    project_dir = own or (cwd if isinstance(cwd, str) else "")
    if guards.inside(home, cwd if isinstance(cwd, str) and cwd else project_dir) or guards.own_call(payload):
        return None
    session = payload.get("session_id") if isinstance(payload, dict) else None
    known = session if isinstance(session, str) else ""
    path = os.path.join(home, "journal", journal_name(agent, known or "unknown"))
    project = (began_in(path) if known else "") or resolve_project(project_dir)
    told: dict[str, Any] = {
        "agent": agent,
        "received_at_ns": received_at_ns,
        "project_dir": project_dir,
        "project": project,
    }
    try:
        envelope = build_envelope(payload, **told)
    except (RecursionError, TypeError, ValueError):  # a shape we cannot walk: its text is kept instead
        envelope = build_envelope(raw.decode("utf-8", "replace"), **told)
    append_line(path, encode_line(envelope))
    return envelope


def began_in(path: str) -> str:
    """Return the project that the first line of a session's journal file names, "" when it tells none.

    A session keeps the project it began in: agents change folders, and remove the worktree they are in.
    """
    try:  # neither a link nor a pipe in its place may lead or hold us anywhere
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        head = os.read(fd, _HEAD_BYTES)
    except OSError:
        return ""
    finally:
        os.close(fd)
    _, _, rest = head.partition(b'"project":"')
    name, end, _ = rest.partition(b'"')
    return name.decode("utf-8", "replace") if end and b"\\" not in name else ""


def read_event(stdin: "BinaryIO | None") -> bytes:
    """Read all of stdin and keep its first STDIN_BYTES: an agent must not see a broken pipe."""
    if stdin is None:
        return b""
    blocks: list[bytes] = []
    kept_bytes = 0
    while block := stdin.read(_BLOCK_BYTES):
        if kept_bytes < STDIN_BYTES:
            blocks.append(block)
            kept_bytes += len(block)
    return b"".join(blocks)


def parse_event(raw: bytes) -> "dict[str, Any] | str":
    """Return the JSON object in `raw`, or its text when it is none. Never raises."""
    text = raw.decode("utf-8", "replace").strip("\ufeff \t\r\n")
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _decode(text: str) -> "Any":
    """Parse JSON with the C scanner alone; the json package would cost as much as all the rest of the hook."""
    try:
        from _json import make_scanner

        settings: Any = _Scan
        value, end = make_scanner(settings)(text, 0)
        if end == len(text):
            return value
    except Exception:  # noqa: BLE001 - whatever it was, the public parser has the last word
        value = None
    import json  # not on the usual way

    return json.loads(text)


class _Scan:
    """The settings that the C scanner reads from its decoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = str  # NaN and Infinity are no JSON: their names are kept
    memo: "dict[str, str]" = {}  # noqa: RUF012 - never written


def build_envelope(
    payload: "Any",
    *,
    agent: str,
    received_at_ns: int,
    project_dir: str,
    project: str | None = None,
    format: str | None = None,  # noqa: A002 - the field's name
    source: "dict[str, Any] | None" = None,
    delivery_id: str | None = None,
) -> "dict[str, Any]":
    """Return the envelope of a payload, redacted and clipped here so that no writer can forget it.

    `project` is looked up from `project_dir` unless given; `delivery_id` is unique per call unless given; `source`
    names file, offset and n of an imported fact. Never looks at the environment.
    """
    if isinstance(payload, str):
        cleaned, clipped = clean_text(payload)
    else:
        cleaned, clipped = clean_payload(payload)
    return {
        "v": ENVELOPE_VERSION,
        "id": delivery_id or f"{received_at_ns}-{os.getpid()}-{os.urandom(6).hex()}",
        "received_at_ns": received_at_ns,
        "agent": valid_text(agent),
        "host": valid_text(os.uname().nodename),
        "project_dir": valid_text(project_dir),
        "project": valid_text(resolve_project(project_dir) if project is None else project),
        "format": format or _FORMATS.get(agent, f"{agent}-hook"),
        "source": source,
        "payload": cleaned,
        "clipped": clipped,
    }


def encode_line(envelope: "dict[str, Any]") -> bytes:
    """Return the envelope as one line of UTF-8 JSON with its newline. Raises ValueError for what JSON cannot hold."""
    try:
        from _json import encode_basestring, make_encoder  # see _decode

        encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)
        text = "".join(encode(envelope, 0))
    except (ImportError, TypeError):
        import json  # not on the usual way

        text = json.dumps(envelope, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def _refuse(value: "Any") -> "Any":
    raise ValueError(f"envelope: wanted JSON values, got {type(value).__name__}")


def journal_name(agent: str, session_id: str) -> str:
    """Return the journal file name of a session: `<agent>-<session>.jsonl` in [a-z0-9._-], at most 120 characters.

    Whatever had to be changed gets `--` and a hash of the original; `--` itself counts as changed, so two sessions of
    an agent never share a file, on case-insensitive file systems neither.
    """
    plain = f"{agent}-{session_id}"
    name = "".join(char if char in _NAME_CHARS else "_" for char in plain.lower())
    name = name.replace("..", "__").replace("--", "_-").strip(".")
    if name == plain and session_id and len(name) <= FILE_NAME_CHARS:
        return f"{name}.jsonl"
    import hashlib  # only odd names

    mark = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{name[: FILE_NAME_CHARS - _HASH_CHARS - 2].rstrip('.-')}--{mark}.jsonl"


def append_line(path: str, line: bytes) -> int:
    """Append a complete line and return the offset at which it starts: see `append_placed`."""
    return append_placed(path, line)[0]


def append_placed(path: str, line: bytes) -> "tuple[int, int]":
    """Append a complete line in one write and return the offset at which it starts, and the inode of its file.

    Creates file (0600) and folders (0700) when missing; links are refused. A short write is completed, or, when
    somebody else wrote in between, followed by a newline and the whole line. Raises OSError when the line is not in the
    file. In the page cache on return, not forced to the disk.
    """
    try:
        fd = os.open(path, _APPEND | os.O_CREAT, 0o600)
    except FileNotFoundError:
        _make_folders(os.path.dirname(path))
        fd = os.open(path, _APPEND | os.O_CREAT, 0o600)
    try:
        written = os.write(fd, line)
        end = os.lseek(fd, 0, os.SEEK_CUR)
        if written < len(line):
            end = _complete(fd, line, written, end)
        return end - len(line), os.fstat(fd).st_ino
    finally:
        os.close(fd)


def _complete(fd: int, line: bytes, written: int, end: int) -> int:
    """Finish a torn line; return the offset after it."""
    try:
        rest = os.write(fd, line[written:])
        after = os.lseek(fd, 0, os.SEEK_CUR)
        if written + rest == len(line) and after == end + rest:
            return after
    except OSError:
        rest = 0  # the next write says whether it passes
    if os.write(fd, b"\n" + line) < len(line) + 1:
        raise OSError(28, "only a part of the line could be written")
    return os.lseek(fd, 0, os.SEEK_CUR)


def _make_folders(journal: str) -> None:
    """Make home and journal folder, and the counter of failures while there is room for it."""
    from headwater.surface.failures import create_counter  # only in a new home

    home = os.path.dirname(journal)
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.makedirs(journal, mode=0o700, exist_ok=True)
    create_counter(home)
