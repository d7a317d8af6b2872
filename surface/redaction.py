"""Redaction: private passages and secrets are replaced in a text before it is written anywhere.

Private passages are what stands between private tags; where tags do not pair up, more is private, never less. Secrets
are known families of tokens, key blocks, passwords in URLs, credentials in headers, and values given to names such as
`password` (`assignments.py`). Commit hashes, UUIDs, digests and token counts stay.

Every pattern is linear in the text. It is compiled only when a plain word of it occurs, for most texts hold none.
Standard library only: the hook loads it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

PRIVATE = "[private]"
_URL_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_JWT_HEADER_CHARS = 4096  # looked back from the dot: headers are about 50, with certificates 2,000
_KEY_CHARS = 20_000  # from BEGIN to END: a 16,384-bit RSA key has 12,700
_KEY_LINE_MIN_CHARS = 16  # of a line taken for a part of a key when its BEGIN or END is missing

# A token starts after no letter or digit, but for the n of an escaped newline in a text that is itself JSON.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_TAG = r"(?:<|\\{1,3}u003c)\s*+(/?)\s*+private(?=[\s/>\\]|$)[^<>\\]*+(?:>|\\{1,3}u003e|\\|(?=<)|$)"

_FAMILIES: "tuple[tuple[str, tuple[str, ...], str], ...]" = (
    ("anthropic", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{8,}"),
    ("openrouter", ("sk-or-",), r"sk-or-(?:v\d-)?[A-Za-z0-9_-]{16,}"),
    (
        "openai",
        ("sk-",),
        _EDGE
        + r"sk-(?:(?:proj|svcacct|admin|service)-[A-Za-z0-9_-]{16,}|(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{20,})",
    ),
    ("stripe", ("k_live_", "k_test_"), r"[rs]k_(?:live|test)_[A-Za-z0-9]{8,}"),
    (
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        _EDGE + r"(?:gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
    ),
    (
        "gitlab",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-"),
        r"gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_.-]{16,}",
    ),
    ("huggingface", ("hf_",), _EDGE + r"hf_[A-Za-z0-9]{20,}"),
    ("npm", ("npm_",), _EDGE + r"npm_[A-Za-z0-9]{20,}"),
    ("pypi", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{16,}"),
    ("slack", ("xox", "xapp-"), r"xox[abcdeoprs]-[A-Za-z0-9-]{8,}|xapp-\d-[A-Za-z0-9-]{8,}"),
    ("slack", ("hooks.slack.com/",), r"(?<=hooks\.slack\.com/)[a-z]{4,12}/[A-Za-z0-9_/-]{16,}"),
    ("aws", ("AKIA", "ASIA"), _EDGE + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (
        "google",
        ("AIza", "ya29.", "GOCSPX-"),
        r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{16,}",
    ),
    ("webhook", ("whsec_",), r"whsec_[A-Za-z0-9+/=_-]{16,}"),
    ("sendgrid", ("SG.",), _EDGE + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("digitalocean", ("_v1_",), r"do[oprt]_v1_[a-f0-9]{32,}"),
    ("shopify", ("shpat_", "shpss_", "shpca_", "shppa_"), r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{16,}"),
    ("age", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
)

_URL_CREDENTIALS = r"(://[^\s/:@\"'<>\[\]]{0,256}:)(?![${]|\[redacted:)([^\s/\"'<>]{1,1024})(?=@)"
_AUTHORIZATION = (
    r"(?i)(authorization\\{0,3}[\"'`]?\]?\s{0,4}[:=,]\s{0,4}\\{0,3}[\"'`]?"
    r"(?:(?:bearer|basic|token|digest|api-?key|key|negotiate|bot)[ \t]{1,4}|(?=[^\s\"'`\d]{0,256}\d)(?=[^\s\"'`]{16})))"
    r"([^\s\"'`,;<>(){}\[\]\\$]{1,8192})"
)
_BEARER = r"(?i)(bearer(?:\s|%20|\+){1,4})(?=[a-z._~+/=-]{0,256}[0-9])([a-z0-9._~+/=-]{16,8192})"
_CURL_USER = (
    r"(curl(?=\s)[^\n|;&]{0,200}?(?:\s-u|--user)[ =]{0,4}[\"']?[\w.@+-]{1,128}:)"
    r"(?!\$|\[redacted:)([^\s\"']{1,512})"
)
_NETRC = r"(login\s{1,4}\S{1,256}\s{1,4}password\s{1,4})(?!\[redacted:)(\S{1,512})"
_STORED_AUTH = r"([\"_]auth\"?\s{0,4}[:=]\s{0,4}\"?)([A-Za-z0-9+/]{12,}={0,2})"
_ELEMENT = (
    r"(?i)(<[\w:.-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key)>)"
    r"(?!\[redacted:)([^<\s]{1,1024})(?=</)"
)

_compiled: "dict[str, re.Pattern[str]]" = {}


def pattern(source: str) -> "re.Pattern[str]":
    """Return a compiled pattern, compiled once and only when asked for."""
    found = _compiled.get(source)
    if found is None:
        import re  # costs more than the rest of the hook; most texts need none

        found = _compiled[source] = re.compile(source)
    return found


def redact(text: str) -> str:
    """Return the text without private passages and secrets. Idempotent, linear in the text, never raises."""
    return redact_secrets(strip_private(text))


def strip_private(text: str) -> str:
    """Replace what stands between private tags by `[private]`.

    Any case, blanks and attributes are allowed in a tag. An open tag that is not closed makes all the rest private, a
    close tag that was not opened all before it. Give it the whole text: a part may lack the other tag.
    """
    if "private" not in text.lower():
        return text
    kept: list[str] = []
    start = 0
    depth = 0
    for tag in pattern(r"(?i)" + _TAG).finditer(text):
        if not tag[1] and tag[0].endswith("/>"):
            continue  # <private/> holds nothing
        if not tag[1]:
            if depth == 0:
                kept.append(text[start : tag.start()])
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            kept = [PRIVATE] if depth == 0 else [*kept, PRIVATE]
            depth = 0
            start = tag.end()
    kept.append(PRIVATE if depth else text[start:])
    return "".join(kept)


class Signs:
    """Which words of secrets and private tags occur in a text: in no part of it can any other occur.

    Looking for them once in all texts of a payload is several times faster than in each of its fifty.
    """

    __slots__ = (
        *("authorization", "bearer", "curl", "families", "jwt", "keys", "names", "private", "secrets"),
        *("stored", "url"),
    )

    def __init__(self, text: str) -> None:
        """Look at a text; parts joined by line ends are as good as one."""
        lower = text.lower()
        self.private = "private" in lower
        self.keys = "-----" in text and "PRIVATE KEY" in text
        found = [(family, [w for w in words if w in text], source) for family, words, source in _FAMILIES]
        self.families = [one for one in found if one[1]]
        self.jwt = ".eyJ" in text
        self.url = "://" in text and "@" in text
        self.authorization = "authorization" in lower
        self.bearer = "bearer" in lower
        self.curl = "curl" in lower and ("-u" in text or "--user" in text)
        self.stored = "_auth" in text or '"auth"' in text
        # what stands for a key block has a word of these itself
        self.names = [word for word in _NAME_WORDS if self.keys or word in lower]
        credentials = self.url or self.authorization or self.bearer or self.curl or self.stored
        self.secrets = self.keys or self.jwt or credentials or bool(self.families or self.names)


def redact_secrets(text: str, signs: "Signs | None" = None) -> str:
    """Replace secrets by `[redacted:<family>]`; private tags are not looked at.

    `signs`: of a text that holds this one; without them it is looked at itself.
    """
    if len(text) < 4:  # shorter than any secret with its name
        return text
    signs = signs or Signs(text)
    if not signs.secrets:
        return text
    if signs.keys and "-----" in text and "PRIVATE KEY" in text:
        text = _redact_keys(text)
    for family, words, source in signs.families:
        for word in words:
            if word in text:
                text = pattern(source).sub(f"[redacted:{family}]", text)
                break
    if signs.jwt and ".eyJ" in text:
        text = _redact_jwt(text)
    return _redact_credentials(text, signs)


def _redact_credentials(text: str, signs: Signs) -> str:
    lower = text.lower()
    if signs.url and "://" in text and "@" in text:
        text = pattern(_URL_CREDENTIALS).sub(r"\1[redacted:url_password]", text)
    if signs.authorization and "authorization" in lower:
        text = pattern(_AUTHORIZATION).sub(r"\1[redacted:authorization]", text)
    if signs.bearer and "bearer" in lower:
        text = pattern(_BEARER).sub(r"\1[redacted:authorization]", text)
    if signs.curl and "curl" in lower and ("-u" in text or "--user" in text):
        text = pattern(_CURL_USER).sub(r"\1[redacted:password]", text)
    if signs.stored and ("_auth" in text or '"auth"' in text):
        text = pattern(_STORED_AUTH).sub(r"\1[redacted:authorization]", text)
    for word in signs.names:
        if word in lower:
            return _redact_named(text, lower)
    return text


def _redact_named(text: str, lower: str) -> str:
    from headwater.surface import assignments  # most texts have no such name

    if "login" in lower:
        text = pattern(_NETRC).sub(r"\1[redacted:password]", text)
    if "</" in text:
        text = pattern(_ELEMENT).sub(r"\1[redacted:secret]", text)
    return assignments.redact_assignments(text)


_NAME_WORDS = (
    "passw",
    "passphrase",
    "pwd",
    "_pass",
    "secret",
    "token",
    "apikey",
    "_key",
    "-key",
    "accesskey",
    "privatekey",
    "accountkey",
    "패스워드",
    "비밀번호",
    "암호",
    "パスワード",
    "暗証番号",
    "密码",
    "密碼",
    "口令",
)  # without one of these no name of `assignments.py` can occur


def _redact_jwt(text: str) -> str:
    """Replace header.payload.signature, found by the dot before the payload."""
    kept: list[str] = []
    start = 0
    position = text.find(".eyJ")
    while position >= 0:
        before = text[max(start, position - _JWT_HEADER_CHARS) : position]
        header = before[len(before.rstrip(_URL_SAFE)) :]
        first = header.find("eyJ")
        end = position + 1
        if first >= 0:
            found = pattern(r"\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?").match(text, position)
            if found:
                kept += [text[start : position - len(header) + first], "[redacted:jwt]"]
                start = end = found.end()
        position = text.find(".eyJ", end)
    return "".join([*kept, text[start:]])


def _redact_keys(text: str) -> str:
    """Replace private key blocks: whole ones, those without END, and the lines before an END without BEGIN."""
    kept: list[str] = []
    start = 0
    markers = pattern(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
    opened: re.Match[str] | None = None
    for marker in markers.finditer(text):
        if marker[1] == "BEGIN":
            if opened:
                start = _end_of_lines(text, opened.end(), marker.start())
            kept += [text[start : marker.start()], "[redacted:private_key]"]
            start = marker.end()
            opened = marker
            continue
        if opened and marker.start() - opened.end() > _KEY_CHARS:
            start = _end_of_lines(text, opened.end(), marker.start())
            opened = None
        if not opened:
            kept += [text[start : _start_of_lines(text, start, marker.start())], "[redacted:private_key]"]
        start = marker.end()
        opened = None
    if opened:
        start = _end_of_lines(text, opened.end(), len(text))
    return "".join([*kept, text[start:]])


_KEY_LINE = (
    r"(?:[ \t]*\d{1,6}[→:|\t])?[-+>|\s\"'`]{0,16}"  # line numbers, signs of a diff, quotes
    r"(?:[A-Za-z][A-Za-z-]{2,30}: [^\n\\]{1,200}|[A-Za-z0-9+/=]*)[\"'`,+\s]{0,16}"
)
_AROUND = " \t\r+->|\"'`,\\"
_LINE_ENDS = r"\r?\n|(?:\\{1,3}r)?\\{1,3}n"


def _end_of_lines(text: str, start: int, stop: int) -> int:
    """Return where the lines end that may belong to a key that begins before `start`; only a cut one may be short."""
    line, ends = pattern(_KEY_LINE), pattern(_LINE_ENDS)
    last = start
    stop = min(stop, start + _KEY_CHARS)
    first = True
    while start < stop:
        end = ends.search(text, start, stop)
        body = text[start : end.start() if end else stop]
        long = len(body.strip(_AROUND)) >= _KEY_LINE_MIN_CHARS
        if not line.fullmatch(body) or not (long or first or not end or not body.strip(_AROUND)):
            return last
        if long or first or not end:
            last = start + len(body)
        start = end.end() if end else stop
        first = False
    return last


def _start_of_lines(text: str, start: int, stop: int) -> int:
    """Return where the lines begin that may belong to a key that ends at `stop`; only the last may be short."""
    line = pattern(_KEY_LINE)
    begins = [max(start, stop - _KEY_CHARS)]
    ends: list[int] = []
    for found in pattern(_LINE_ENDS).finditer(text, begins[0], stop):
        ends.append(found.start())
        begins.append(found.end())
    at = stop
    may_be_short = True
    for begin, end in zip(reversed(begins), reversed([*ends, stop]), strict=True):
        body = text[begin:end].strip(_AROUND)
        if body:
            if not line.fullmatch(body) or (len(body) < _KEY_LINE_MIN_CHARS and not may_be_short):
                return at
            may_be_short = False
        at = begin
    return at
