"""Cleaning: a payload without private passages, secrets, base64 and our own injected text, cut to a bounded size.

The order matters. Private passages and injected blocks are matched on the whole text, then base64 becomes a
placeholder, then a long text is reduced to head and tail with a margin, redacted, and cut: so no secret escapes by
lying across the cut. Standard library only: the hook loads it.
"""

from headwater.surface.redaction import Signs, redact_secrets, strip_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLIP_CHARS = 64 * 1024  # of one string: an agent's context never held more of one tool output
ENVELOPE_TEXT_CHARS = 256 * 1024  # of all strings of one payload: one call must not fill the journal
NESTING_MAX = 64  # levels: payloads have about 8
SIGNS_CHARS = 512 * 1024  # of all texts of a payload that are searched at once for words of secrets
VALUES_MAX = 10_000  # of one payload: the biggest real one had 700
NAMES_KEPT = 1_000  # of members, that need not be cleaned again: an import sees a few hundred
KEY_CHARS = 256  # of one key: longer ones are data in the wrong place
MARGIN_CHARS = (
    8 * 1024
)  # kept beside a cut until redaction is done: the longest secrets are key blocks of 6,500
MARGIN_SHORT_CHARS = 1024  # the same where many texts share the room: longer than all tokens
WORK_CHARS = 1024 * 1024  # of one payload that are redacted: text beyond is cut unread, for the agent waits
CLIPPED_MAX = 200  # entries in the list of what was cut
NUMBER_DIGITS = 40  # of a whole number: longer ones are text
_MARKER_CHARS = 48  # "… [N characters clipped] …"
_BASE64_MIN_CHARS = 256  # shorter ones cost little and may be words
_BASE64_LINE_CHARS = 60  # wrapped base64 has 64 or 76 to a line; shorter lines are lists
_BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_OLD_FILE_KEYS = ("originalFile", "originalFileContents")
_EDIT_KEYS = ("filePath", "structuredPatch")
_FLAG_WORDS = ("passw", "passphrase", "token", "secret", "key")
_CONTEXT = "headwater-context"
_REMINDER = "system-reminder"


def clean_payload(payload: "Any") -> "tuple[Any, dict[str, int]]":
    """Return a cleaned copy of a JSON value, and the original length in characters of what was cut, by JSON path.

    Whole old files of edits become null. At most ENVELOPE_TEXT_CHARS of text, NESTING_MAX levels, VALUES_MAX values;
    a container that lost members is listed with its original number of members. Idempotent but for that list. Raises
    TypeError for what is no JSON value.
    """
    lengths: list[int] = []
    texts: list[str] = []
    _measure(payload, lengths, texts, 0)
    # none when a text was not seen, and when cutting something out could make a word of two halves
    signs = None
    if len(lengths) < VALUES_MAX and sum(map(len, texts)) <= SIGNS_CHARS:
        whole = "\n".join(texts)
        signs = None if f"<{_CONTEXT}" in whole else Signs(whole)
    cleaner = _Cleaner(_level(lengths), signs)
    return cleaner.value(payload, "", 0), cleaner.clipped


def clean_text(text: str) -> "tuple[str, dict[str, int]]":
    """Clean one text; a cut is listed with the path ""."""
    cleaner = _Cleaner(CLIP_CHARS, None)
    return cleaner.text(text, ""), cleaner.clipped


def valid_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Cleaner:
    """One walk over one payload."""

    def __init__(self, level_chars: int, signs: "Signs | None") -> None:
        """Cut each string to `level_chars`; `signs` of all texts, None when they are not known."""
        self._signs = signs
        self._may_be_private = signs is None or signs.private
        self._harmless = signs is not None and not (signs.private or signs.secrets)
        self.clipped: dict[str, int] = {}
        self._level_chars = level_chars
        self._values_left = VALUES_MAX
        self._margin_chars = MARGIN_CHARS if level_chars > MARGIN_CHARS else MARGIN_SHORT_CHARS
        self._key_chars_left = CLIP_CHARS
        self._work_chars_left = WORK_CHARS

    def value(self, value: "Any", path: str, depth: int) -> "Any":
        self._values_left -= 1
        if isinstance(value, str):
            return self.text(value, path)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -(10**NUMBER_DIGITS) < value < 10**NUMBER_DIGITS else f"{value:e}"
        if isinstance(value, float):
            return value if value - value == 0 else str(value)  # JSON has no infinity
        if not isinstance(value, dict | list | tuple):
            raise TypeError(f"payload {path or 'itself'}: wanted a JSON value, got {type(value).__name__}")
        if depth >= NESTING_MAX:
            self._note(path, len(value))
            return f"[nested deeper than {NESTING_MAX} levels]"
        if isinstance(value, dict):
            return self._members(value, path, depth)
        return self._items(value, path, depth)

    def text(self, text: str, path: str) -> str:
        length = len(text)
        if (
            self._harmless
            and length <= min(_BASE64_MIN_CHARS, self._level_chars)
            and self._work_chars_left > 0
        ):
            self._work_chars_left -= length
            return valid_text(text)
        whole = strip_injected(strip_private(text) if self._may_be_private else text)
        text = _without_base64(whole)
        if len(text) < len(whole):
            self._note(path, length)
        if len(text) <= self._level_chars and self._work_chars_left > 0:
            self._work_chars_left -= len(text)
            return valid_text(redact_secrets(text, self._signs))
        self._note(path, length)
        if self._work_chars_left <= 0:
            return _marker(length)
        self._work_chars_left -= min(len(text), self._level_chars + 2 * self._margin_chars)
        return valid_text(_shorten(text, self._level_chars, self._margin_chars, length))

    def _members(self, members: "dict[Any, Any]", path: str, depth: int) -> "dict[str, Any]":
        cleaned: dict[str, Any] = {}
        for name, item in members.items():
            key, names_secret = self._key(str(name))
            if self._values_left <= 0 or self._key_chars_left <= 0:
                self._note(path, len(members))
                break
            while key in cleaned:
                key += "'"
            place = f"{path}.{key}" if path else key
            if name in _OLD_FILE_KEYS and _is_old_file(name, item, members):
                self._note(place, len(item))
                cleaned[key] = None
            elif isinstance(item, str):
                self._values_left -= 1
                said = self.text(item, place)
                cleaned[key] = _secret(key, said) if names_secret else said
            else:
                cleaned[key] = self.value(item, place, depth + 1)
        return cleaned

    def _items(self, items: "list[Any] | tuple[Any, ...]", path: str, depth: int) -> "list[Any]":
        whole = _joined(items)
        if whole is not None:
            self._values_left -= len(items)
            return self.text(whole, path).split("\n")
        cleaned: list[Any] = []
        for index, item in enumerate(items):
            if self._values_left <= 0:
                self._note(path, len(items))
                break
            cleaned.append(self.value(item, f"{path}[{index}]", depth + 1))
        return cleaned

    def _key(self, name: str) -> "tuple[str, bool]":
        """Return the cleaned name, and whether it may name a secret."""
        found = _names.get(name)
        if found is None:
            key = name if len(name) <= KEY_CHARS else name[: KEY_CHARS + MARGIN_CHARS]
            key = valid_text(redact_secrets(strip_private(key)))[:KEY_CHARS]
            found = (key, _may_name_secret(key))
            if len(_names) < NAMES_KEPT and name == key:
                _names[name] = found
        self._key_chars_left -= len(found[0])
        return found

    def _note(self, path: str, length: int) -> None:
        if len(self.clipped) < CLIPPED_MAX or path in self.clipped:
            self.clipped.setdefault(path, length)


def _secret(key: str, said: str) -> str:
    from headwater.surface import assignments  # few payloads have such keys

    return assignments.redact_value(key, said)


_names: "dict[str, tuple[str, bool]]" = {}  # cleaned before: the names of payloads are few, and the same each time


def _may_name_secret(key: str) -> bool:
    lower = key.lower()
    return lower.endswith(
        ("password", "passwd", "passphrase", "pwd", "token", "secret", "key", "authorization")
    )


def _joined(items: "list[Any] | tuple[Any, ...]") -> str | None:
    """Return a list of lines as one text when something may span them: a private passage, a key, a flag's value."""
    if len(items) < 2 or not all(isinstance(item, str) and "\n" not in item for item in items):
        return None
    text = "\n".join(items)
    lower = text.lower()
    spans = "private" in lower and ("<" in text or "u003c" in lower or "-----" in text)
    spans = spans or f"<{_CONTEXT}" in text or ("--" in text and any(word in lower for word in _FLAG_WORDS))
    return text if spans else None


def _level(lengths: "list[int]") -> int:
    """Return the length that strings are cut to so that all together keep within ENVELOPE_TEXT_CHARS."""
    if sum(lengths) <= ENVELOPE_TEXT_CHARS:
        return CLIP_CHARS
    left = ENVELOPE_TEXT_CHARS
    lengths.sort()
    for index, length in enumerate(lengths):
        share = left // (len(lengths) - index)
        if length > share:
            return share
        left -= length
    return CLIP_CHARS


def _measure(value: "Any", lengths: "list[int]", texts: "list[str]", depth: int) -> None:
    """Collect all texts, names too, and the lengths that they will have at most; other values count as 0."""
    if len(lengths) >= VALUES_MAX or depth > NESTING_MAX:
        return
    if isinstance(value, str):
        texts.append(value)
        length = len(value)
        if length > _BASE64_MIN_CHARS:
            length = _MARKER_CHARS if _looks_like_base64(value) else min(length, CLIP_CHARS)
        lengths.append(length)
        return
    lengths.append(0)
    if isinstance(value, dict):
        for name, item in value.items():
            texts.append(str(name))
            if name not in _OLD_FILE_KEYS or not _is_old_file(name, item, value):
                _measure(item, lengths, texts, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _measure(item, lengths, texts, depth + 1)


def _is_old_file(name: "Any", item: "Any", members: "dict[Any, Any]") -> bool:
    """Whether a member is the whole file before an edit."""
    named = name in _OLD_FILE_KEYS and isinstance(item, str)
    return named and not members.keys().isdisjoint(_EDIT_KEYS)


def strip_injected(text: str) -> str:
    """Remove our own context blocks, and reminders that hold one: what we told an agent is not what happened.

    A block without an end goes to the end of the text when it begins a line.
    """
    if f"<{_CONTEXT}" not in text:
        return text
    if f"<{_REMINDER}" in text:
        text = _strip_blocks(text, _REMINDER, f"<{_CONTEXT}")
    return _strip_blocks(text, _CONTEXT, "")


def _strip_blocks(text: str, tag: str, holding: str) -> str:
    kept: list[str] = []
    start = 0
    begin = text.find(f"<{tag}")
    while begin >= 0:
        close = text.find(f"</{tag}>", begin)
        end = close + len(tag) + 3 if close >= 0 else len(text)
        whole = close >= 0 or not text[:begin].rpartition("\n")[2].strip()
        if whole and holding in text[begin:end]:
            kept.append(text[start:begin])
            start = end
        begin = text.find(f"<{tag}", end if whole else begin + 1)
    return "".join([*kept, text[start:]])


def _looks_like_base64(text: str) -> bool:
    if len(text) <= _BASE64_MIN_CHARS:
        return False
    sample = text[:_BASE64_MIN_CHARS]
    if sample.startswith("data:") and ";base64," in sample:
        return True
    return sample.isascii() and not sample.encode("ascii").translate(None, _BASE64_ALPHABET + b"\r\n")


def _without_base64(text: str) -> str:
    """Replace a text that is base64, and data URIs inside a text, by a placeholder with size and hash."""
    if len(text) <= _BASE64_MIN_CHARS:
        return text
    if _looks_like_base64(text):
        body = text.partition(";base64,")[2] if text.startswith("data:") else text
        placeholder = _base64_placeholder(body)
        if placeholder:
            return placeholder
    if ";base64," in text:
        from headwater.surface.redaction import pattern

        uri = pattern(r"data:[\w/+.;=-]{0,64};base64,([A-Za-z0-9+/=_%-]{256,})")
        return uri.sub(lambda match: _base64_placeholder(match[1], strict=False), text)
    return text


def _base64_placeholder(body: str, *, strict: bool = True) -> str:
    """Return the placeholder, "" when `strict` and the body is not base64 after all."""
    if not body.isascii():
        return ""
    raw = body.encode("ascii")
    if strict:
        breaks = raw.count(b"\n")
        sample = body[:4096]
        mixed = any(map(str.isdigit, sample)) and sample.lower() != sample and sample.upper() != sample
        if (
            not mixed
            or raw.translate(None, _BASE64_ALPHABET + b"\r\n")
            or len(raw) < breaks * _BASE64_LINE_CHARS
        ):
            return ""
    import binascii  # few payloads hold base64
    import hashlib

    try:
        data = binascii.a2b_base64(raw.translate(bytes.maketrans(b"-_", b"+/")))
    except binascii.Error:  # cut off in the middle
        data = raw
    return f"[base64 {len(data)} bytes sha256:{hashlib.sha256(data).hexdigest()[:12]}]"


def _shorten(text: str, limit: int, margin: int, length: int) -> str:
    """Redact a text and cut it to head and tail; `length` is what it had in the beginning."""
    keep = max(limit - _MARKER_CHARS, 0)
    head = (keep + 1) // 2
    tail = keep - head
    if len(text) <= keep + 2 * margin:
        text = redact_secrets(text)
        if len(text) <= limit:
            return text
        front, back = text[:head], text[len(text) - tail :]
    else:
        # What a margin leaves unredacted is a secret that lies across its outer end: the whole margin goes.
        front = redact_secrets(text[: head + margin])[:-margin][:head]
        rest = redact_secrets(text[len(text) - tail - margin :])[margin:]
        back = rest[max(len(rest) - tail, 0) :]
    return front + _marker(max(length - len(front) - len(back), 0)) + back


def _marker(count: int) -> str:
    return f"… [{count} characters clipped] …"
