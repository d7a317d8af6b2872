r"""Values given to names such as `password`, `api_key` or `token`: which of them are secrets.

The name decides how sure a value must look: whatever a password is given is taken for one, a token needs the look of
one. What is code stays: calls, types, references to variables, counts. Loaded by `redaction.py` when such a name
occurs.
"""

from headwater.surface.redaction import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

PASSWORD, SECRET, TOKEN = "password", "secret", "token"
_DONE = ("[redacted:", "[private]")

_NAME = (
    r"(?:(?P<password>passw(?:or)?d|passphrase|pwd|(?<=_)pass)"
    r"|(?P<secret>secret(?:[_-]?key(?:[_-]?base)?)?"
    r"|(?:(?:api|access|private|signing|encryption|account|auth|master|role|deploy)[_-]|api|access|private|account)key)"
    r"|(?P<token>token))(?!-stdin)"
)
_QUOTE = r"\\{0,3}(?:\"{3}|'{3}|[\"'`])"
_BARE = r"[^\s\"'`,;<>(){}\[\]\\|&]"
_VALUE = (
    rf"(?:(?P<prefix>[bfru]{{0,2}})(?P<quote>{_QUOTE})(?!(?P=quote))(?:(?P<quoted>[^\n]{{1,2048}}?)(?P=quote)"
    r"|(?P<open>[^\s\"'`]{1,512}))"
    rf"|(?P<bare>{_BARE}{{1,200}}))"
)
_ASSIGNMENT = (
    rf"(?i){_NAME}\d{{0,2}}(?![a-z0-9_])\\{{0,3}}[\"'`]?\]?\??"
    r"(?P<typed>\s{0,4}:\s{0,2}[a-z_][\w.\[\]| ]{0,30}?(?=\s{0,2}=[^=]))?"
    r"(?P<before>[ \t]{0,8})(?P<sign>:=|=>|={1,3}|[:：])(?P<after>[ \t]{0,8})" + _VALUE
)
_FLAG = rf"(?i)--[a-z0-9-]{{0,32}}?{_NAME}(?![\w-])(?P<before>\s)(?P<sign>)(?P<after>\s{{0,4}})(?!-)" + _VALUE
_SAID = (
    r"(?i)(?:passw(?:or)?d|passphrase|pwd|passcode)\s{1,3}(?P<sign>is|was)(?P<after>(?:\s{0,2}:)?\s{1,3})"
    + _VALUE
)
_SAID_CJK = (
    r"(?:비밀번호|패스워드|암호|パスワード|暗証番号|密码|密碼|口令)(?:는|은|가|이|를|을|は|が|を|是|为|為)?"
    r"(?P<after>\s{0,2}[:：=]?\s{0,2}[「『\"'`“‘]?)(?P<bare>[!-&*-Z^-~]{4,128})"
)

# with which each pattern begins, in lower case
_SAID_WORDS = ("passw", "passphrase", "pwd", "passcode")
_ASSIGNMENT_WORDS = (
    *("passw", "passphrase", "pwd", "pass", "secret", "token", "api", "access", "private", "signing"),
    *("encryption", "account", "auth", "master", "role", "deploy"),
)
_CJK_WORDS = ("비밀번호", "패스워드", "암호", "パスワード", "暗証番号", "密码", "密碼", "口令")
_ODD = frozenset(
    "\u017f\u212a"
)  # long s and the Kelvin sign: a pattern takes them for s and k, `lower` does not

# Words that stand after a name without being its value: types, constants, and what is said about passwords.
_WORDS = frozenset(
    (  # noqa: SIM905 - a list would take a page
        "a again also always an and any argument array as at be being bool boolean buffer by byte bytes "
        "bytestring callable case case-sensitive char class const correct datetime default dict empty enough "
        "enum exactly export false field file final fine flag float for from function going hashed here "
        "hidden how import in incorrect input int integer interface into invalid is it let list long longer "
        "masked missing never nil no none not now null number object of off ok old on only option optional or "
        "ours parameter private prompt protected public redacted require required return right safe same "
        "secretstr secure self sent set shared shorter static still stored str string strong struct text that "
        "the there this to too true tuple type undefined union unknown unsafe unset uuid valid value var "
        "varchar visible void weak what when where which who why with wrong yes you your "
    ).split()
)
_TYPE = r"(?i)u?(?:int|float|char|varchar|str|bytes?)\d{1,4}(?:array)?"
_SNAKE = r"(?i)_*[a-z]+\d{0,3}(?:_+[a-z]+\d{0,3})+_*"
_DOTTED = r"(?i)[a-z_]\w*(?:\.[a-z_]\w*)+"
_WORD_ENDS = ("ed", "ing", "able", "ional")  # "password is rejected", not a value

_PASSWORD_KEYS = ("password", "passwd", "passphrase", "pwd")
_SECRET_KEYS = (
    "secret",
    "secret_key",
    "secretkey",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "authorization",
)


def kind_of_key(name: str) -> str:
    """Return which kind of secret a JSON key with this name holds, "" for none."""
    lower = name.lower().replace("-", "_")
    if lower.endswith(_PASSWORD_KEYS):
        return PASSWORD
    if lower.endswith("token"):
        return TOKEN
    return SECRET if lower.endswith(_SECRET_KEYS) else ""


def redact_value(name: str, text: str) -> str:
    """Return the text under a JSON key, or a placeholder when the name and the look of the text make it a secret."""
    kind = kind_of_key(name)
    return f"[redacted:{kind}]" if kind and _quoted_is_secret(kind, "", text) else text


def redact_assignments(text: str) -> str:
    """Replace values of secret names in a text by `[redacted:<kind>]`. Linear in the text; idempotent."""
    lower = text.lower()
    text = _replace(text, _ASSIGNMENT, _ASSIGNMENT_WORDS, _judge_assignment)
    if "--" in text:
        text = _replace(text, _FLAG, ("--",), _judge_flag)
    if " is" in lower or " was" in lower:
        text = _replace(text, _SAID, _SAID_WORDS, _judge_said)
    if not text.isascii():
        text = _replace(text, _SAID_CJK, _CJK_WORDS, _judge_cjk)
    return text


def _replace(text: str, source: str, words: "tuple[str, ...]", judge: "Judge") -> str:
    """Replace the values that `judge` calls secrets; it returns kind and end of the value, or None."""
    kept: list[str] = []
    start = 0
    find = _finder(text, source, words)
    match = find(0)
    while match:
        verdict = judge(text, match)
        position = match.end("after")  # a value that is no secret may hold another name
        if verdict:
            kind, value_start, position = verdict
            kept += [text[start:value_start], f"[redacted:{kind}]"]
            start = position
        match = find(position)
    return "".join([*kept, text[start:]])


def _finder(text: str, source: str, words: "tuple[str, ...]") -> "Callable[[int], re.Match[str] | None]":
    """Return what finds the first match from a position on; positions only grow.

    The pattern is tried where one of the words stands with which it can begin: several times faster than a search.
    """
    lower = text.lower()
    if len(lower) != len(text) or any(char in text for char in _ODD):  # places cannot be told by `lower`
        search = pattern(source).search
        return lambda position: search(text, position)
    found: set[int] = set()
    for word in words:
        place = lower.find(word)
        while place >= 0:
            found.add(place)
            place = lower.find(word, place + 1)
    places = iter(sorted(found))
    match_at = pattern(source).match

    def find(position: int) -> "re.Match[str] | None":
        for place in places:
            if place >= position and (match := match_at(text, place)):
                return match
        return None

    return find


def _kind(match: "re.Match[str]") -> str:
    return PASSWORD if match["password"] else SECRET if match["secret"] else TOKEN


def _judge_assignment(text: str, match: "re.Match[str]") -> "Verdict":
    kind = _kind(match)
    if match["bare"] is None:
        return _judge_quoted(kind, text, match)
    if match["typed"]:
        return None
    name = (match["password"] or match["secret"] or match["token"]).lower()
    value = match["bare"]
    tight = match["sign"] == "=" and not match["before"] and not match["after"]
    if text[match.end() : match.end() + 1] in tuple("([{") or not _may_be_bare(kind, name, value):
        return None  # a call, an index, a reference
    if tight and _shouts(text, match):
        if kind == TOKEN and value.isdecimal():
            return None
    elif name == "pass" or not _bare_is_secret(kind, text, match, tight):
        return None
    # No signs end such a value but blanks and quotes, except on a command line or in a URL.
    more = f"{_BARE}*" if tight and not _shouts(text, match) else r"[^\s\"'`<>]*"
    rest = pattern(more).match(text, match.end())
    end = match.end() + (len(rest[0].rstrip(",;)}]\\")) if rest else 0)
    return kind, match.start("bare"), end


def _judge_quoted(kind: str, text: str, match: "re.Match[str]") -> "Verdict":
    group = "quoted" if match["quoted"] is not None else "open"
    if not _quoted_is_secret(kind, match["prefix"] or "", match[group]):
        return None
    end = match.end(group)
    if group == "open":  # cut off, or longer than a literal is looked at
        rest = pattern(r"[^\s\"'`]*").match(text, end)
        end = rest.end() if rest else end
    return kind, match.start(group), end


def _judge_flag(text: str, match: "re.Match[str]") -> "Verdict":
    kind = _kind(match)
    if match["bare"] is None:
        return _judge_quoted(kind, text, match)
    value = match["bare"]
    if not _may_be_bare(kind, "", value) or (kind == TOKEN and len(value) < 8):
        return None
    if value.isalpha() and ("\n" not in match["before"] or kind != PASSWORD) and len(value) < 20:
        plain = value.lower() in _WORDS or kind != PASSWORD or not _ends_sentence(text, match.end())
        return None if plain else (kind, match.start("bare"), match.end())
    return kind, match.start("bare"), match.end()


def _judge_said(text: str, match: "re.Match[str]") -> "Verdict":
    if match["bare"] is None:
        return _judge_quoted(PASSWORD, text, match)
    value = match["bare"].rstrip(".:!?")
    if not value or not _may_be_bare(PASSWORD, "", value):
        return None
    if not _is_mixed(value):
        end = match.start("bare") + len(value)
        if value.lower().endswith(_WORD_ENDS) or not value.islower() or not _ends_sentence(text, end):
            return None
    return PASSWORD, match.start("bare"), match.start("bare") + len(value)


def _judge_cjk(_text: str, match: "re.Match[str]") -> "Verdict":
    value = match["bare"].rstrip(".,:;!?")
    if not _is_mixed(value) or not _may_be_bare(PASSWORD, "", value):
        return None
    return PASSWORD, match.start("bare"), match.start("bare") + len(value)


def _quoted_is_secret(kind: str, prefix: str, value: str) -> bool:
    """A literal: passwords always, others when they look like one."""
    text = value.strip()
    if not text or text.startswith(_DONE) or _is_mask(text):
        return False
    template = "${" in text or "{{" in text or "%(" in text or ("f" in prefix.lower() and "{" in text)
    if template or text[0] in "$<" or (kind == PASSWORD and _is_path(text)):
        return False
    if kind == PASSWORD:
        return True
    if kind == SECRET:
        return len(text) >= 4 and text.lower() not in _WORDS and not _is_path(text)
    return len(text) >= 8 and " " not in text and (_is_mixed(text) or len(text) >= 24)


def _may_be_bare(kind: str, name: str, value: str) -> bool:
    """Tell whether an unquoted value can be a secret at all."""
    word = value.rstrip(".:!?*").lower()
    if (
        not word
        or word in _WORDS
        or value[0] in "$%"
        or _is_mask(value)
        or word.startswith(("http:", "https:"))
    ):
        return False
    if kind == PASSWORD and _is_path(value):
        return False
    if kind != PASSWORD and "access" not in name and _is_path(value) and "." in value:
        return False
    has_digit = pattern(r"\d").search(word)
    if not has_digit and (
        pattern(_DOTTED).fullmatch(word) or (name and name in word and word.isidentifier())
    ):
        return False
    return not pattern(_TYPE).fullmatch(word)


def _bare_is_secret(kind: str, text: str, match: "re.Match[str]", tight: bool) -> bool:
    """Judge an unquoted value of a name in lower case: code and prose are more frequent here than secrets."""
    value = match["bare"].rstrip(".:!?")
    code = bool(pattern(_SNAKE).fullmatch(value) or (pattern(_DOTTED).fullmatch(value) and not tight))
    digits = len(pattern(r"\d").findall(value))
    if kind != PASSWORD:
        long = len(value) >= 24 and digits > 0 and not value.islower() and not value.isupper()
        return not code and (long or (digits >= 2 and len(value) >= 10 and not value.isdecimal()))
    if code:
        return False
    if value.isdecimal():
        return len(value) >= 4
    if digits or _is_mixed(value):
        return True
    follows = text[match.end() : match.end() + 1]
    if tight:
        return follows not in (",", ")")
    plain = value.islower() and not value.endswith(_WORD_ENDS) and match["sign"] in (":", "：")
    return plain and _ends_sentence(text, match.end())


def _shouts(text: str, match: "re.Match[str]") -> bool:
    """Tell whether the whole name is in capitals, as variables of the environment are."""
    group = "password" if match["password"] else "secret" if match["secret"] else "token"
    before = text[max(0, match.start(group) - 64) : match.start(group)]
    bare = before.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
    return (before[len(bare) :] + match[group]).isupper()


def _is_mixed(value: str) -> bool:
    """Tell whether a word has what words of a language do not: digits, or signs inside."""
    inner = value.strip("-'._/:*")
    return any(char.isdigit() or char in "!#$%^&*+=@~?_" for char in inner)


def _is_mask(value: str) -> bool:
    return len(value) > 1 and not value.strip("*xX.•-_#…?")


def _is_path(value: str) -> bool:
    if " " in value or not value.startswith(("/", "./", "../", "~/")):
        return False
    return value.count("/") > 1 or "." in value or len(value) < 16  # base64 may begin with a slash


def _ends_sentence(text: str, end: int) -> bool:
    return pattern(r"[.,!?;}\])]{0,3}[ \t\r]{0,8}(?:\n|\\n|$)").match(text, end) is not None


if TYPE_CHECKING:
    from collections.abc import Callable

    Verdict = tuple[str, int, int] | None
    Judge = Callable[[str, re.Match[str]], Verdict]
