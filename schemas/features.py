"""Text features: topics, files and entities of a text. Lexical and deterministic, for four languages and code.

Topics are what a text is about, as words a person would know again; entities are the names that code gives to things;
files are paths. Nothing here learns: the same text gives the same features on every machine.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.schemas.events import Event


def _words(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text: it is read as one."""
    return frozenset(text.split())


# Words that say how a thing is said, not what about. English: function words, and the small talk of working.
_STOP_EN = _words(
    """
    a about above after again all already also am an and any are as at away back be because been
    before being both but by can cannot come could did do does doing done down each either else enough
    even ever every few first for from further get give go goes going good got had has have having he
    her here him his how i if in instead into is it its itself just keep kept last later least less
    let like look looks made make makes many may maybe me might mine more most much must my near need
    needs never new next no none nor not nothing now of off ok okay old on once one only or other our
    out over own per please put quite rather really right said same say says see seen set shall she
    should show since so some soon still such sure take tell than thanks that the their them then
    there these they thing things this those though through thus till to today together tomorrow too
    try two under until up upon us use used uses using very via want wants was way we well went were
    what when where whether which while who whom whose why will with within without would yes
    yesterday yet you your add added check file files fix fixed work works working line lines code run
    runs running change changed change
    """
)
# Japanese and Chinese words of two characters that carry no subject; single ones are never topics.
_STOP_HAN = _words(
    """
    今日 昨日 明日 今回 前回 次回 場合 必要 確認 対応 修正 追加 変更 実装 問題 原因 方法 以上 以下
    以外 自分 今度 全部 最後 最初 結果 現在 一度 可能 理由 作業 今天 昨天 明天 现在 这个 那个 一个
    没有 可以 不能 问题 原因 怎么 什么 时候 已经 还是 就是 不是 但是 因为 所以 如果 然后 需要 这样
    那样 一下 里面 上面 下面 以后 之后 之前 以前 看看 继续 开始 完成 修改 增加 添加 我们 他们 你们
    自己 出来 起来 一次 两个 全部 最后 结果 目前 一直 同时 另外 或者 而且 只有 只要 直接
    """
)
# Korean words that carry no subject, after their particles are gone.
_STOP_KO = _words(
    """
    지금 이제 다시 그냥 일단 아직 이미 먼저 나중 오늘 어제 내일 이거 그거 저거 이것 그것 어떻게 어떤
    무엇 뭐지 그러면 그런데 근데 그리고 그래서 그래 하지만 때문 경우 정도 하나 모두 전부 다른 같은
    이런 그런 있는 없는 하는 되는 있습니다 없습니다 합니다 됩니다 했습니다 됐습니다 입니다 아니라
    그대로 바로 계속 확인 추가 수정 변경 적용 문제 원인 방법 이후 이전 우선 방금 잠깐 조금 제안 추천
    필요 가능 보여줘 해줘 좋습니다 맞습니다 알겠습니다 아닙니다 하면 되면 하게 하고 되고 해서 이어서
    """
)
# Particles and endings, longest first: the rule strips one, so that 토큰을, 토큰은 and 토큰으로 are one word.
_KO_ENDINGS = tuple(
    sorted(
        _words("""
    에서는 으로는 에서도 까지는 이라는 하겠습니다 했습니다 됐습니다 습니다 합니다 됩니다 입니다 에서
    으로 에게 까지 부터 마다 처럼 보다 라는 이나 이라 이고 이면 에는 에도 와는 과는 하고 하게 하면
    해서 했고 하는 되는 했던 하던 하기 되게 은 는 이 가 을 를 에 의 로 와 과 도 만 야 요 랑 나 고 면
    서 게 지
    """),
        key=lambda ending: (-len(ending), ending),
    )
)
# Characters between Chinese words: particles, pronouns, copulas and the commonest verbs and prepositions.
_HAN_GAPS = re.compile(
    "[的了是在和与或把被就都也很还不没有要会能可这那我你他它吗呢吧啊从到给让对为以及而且但之其所将着过个们么]"
)
_NO_PLURAL = _words(
    "postgres redis kubernetes https tls dns css aws js ios macos kafka nats sqs sns gps rs485 always"
)

_HANGUL = "\uac00-\ud7a3"  # whole syllables: a row of single letters is laughter or a nod
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KATAKANA = "\u30a1-\u30fa\u30fc"
_TOKEN = re.compile(
    f"(?P<word>[A-Za-z_$][A-Za-z0-9_$]*(?:(?:::|[./:@-])[A-Za-z0-9_$]+)*(?:\\(\\))?|/[A-Za-z0-9_.{{}}/-]+)"
    f"|(?P<hangul>[{_HANGUL}]+)|(?P<han>[{_HAN}]+)|(?P<kata>[{_KATAKANA}]+)"
)
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_FILE = re.compile(r"^[\w$.{}@-]*(?:/[\w$.{}@-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}$")
_SUFFIXES = _words(
    """
    py pyi ipynb rs go c h cc cpp hpp java kt kts scala swift m js jsx mjs ts tsx vue svelte rb php pl
    lua sh bash zsh sql md mdx rst txt toml yaml yml json jsonl ini cfg conf env lock xml html css
    scss proto graphql tf dockerfile gradle properties csv tsv parquet ex exs erl hs ml cs fs dart zig
    nim r jl cmake mk patch diff log
    """
)
_NAMED_FILES = frozenset(
    {"Dockerfile", "Makefile", "Jenkinsfile", "Procfile", "Gemfile", "Rakefile", "Cargo.lock"}
)
_CODE_SIGN = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z]_|_[A-Za-z]|::|[a-z]\.[a-z]|\(\)$")
_SHOUT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_HEX = re.compile(r"(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_STACK_LINE = re.compile(r"^\s*(?:at |File \").*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Features:
    """What a text is about: each group in falling order of weight, without repeats."""

    topics: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.topics or self.files or self.entities)


def event_features(event: Event) -> Features:
    """Return the features of an event; topics only from what people and agents say, not from output of tools."""
    named = tuple(dict.fromkeys(ref.path for ref in event.files)) if event.files else ()
    if event.kind is Kind.TOOL:
        found = text_features(event.content[: limits.FEATURE_TOOL_CHARS])
    elif event.kind in (Kind.PROMPT, Kind.RESPONSE):
        found = text_features(event.content)
    else:
        return Features((), named, ())
    files = tuple(dict.fromkeys((*named, *found.files)))[: limits.FEATURE_FILES] if named else found.files
    return Features(() if event.kind is Kind.TOOL else found.topics, files, found.entities)


@lru_cache(maxsize=256)  # the same text is asked for by several steps, one soon after the other
def text_features(text: str) -> Features:
    """Return topics, files and entities of a text, the most frequent first, equal ones in order of appearance."""
    text = _STACK_LINE.sub(" ", text[: limits.FEATURE_CHARS])
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    japanese = not text.isascii() and _KANA.search(text) is not None
    topics: dict[str, int] = {}
    files: dict[str, int] = {}
    entities: dict[str, int] = {}
    for match in _TOKEN.finditer(text):
        token, group = match[0], match.lastgroup
        words: tuple[str, ...]
        if group == "word":
            file, entity, words = _word(token)
            if file:
                files[file] = files.get(file, 0) + 1
            if entity:
                entities[entity] = entities.get(entity, 0) + 1
        elif group == "hangul":
            words = _korean(token)
        elif group == "han":
            words = _han(token, japanese=japanese)
        else:
            words = (token,) if len(token) > 1 else ()
        for word in words:
            topics[word] = topics.get(word, 0) + 1
    return Features(
        _best(topics, limits.FEATURE_TOPICS),
        _best(files, limits.FEATURE_FILES),
        _best(entities, limits.FEATURE_ENTITIES),
    )


def join(parts: Iterable[Features]) -> Features:
    """Return the features of several texts as one, first come first, without repeats and without a limit."""
    topics: dict[str, None] = {}
    files: dict[str, None] = {}
    entities: dict[str, None] = {}
    for part in parts:
        topics |= dict.fromkeys(part.topics)
        files |= dict.fromkeys(part.files)
        entities |= dict.fromkeys(part.entities)
    return Features(tuple(topics), tuple(files), tuple(entities))


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return an English word without the endings of number and tense; any other word as it is.

    For comparing only: `purge`, `purged` and `purging` become one form, which may be no word itself.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, rest in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + rest
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lse":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@lru_cache(maxsize=8192)
def split_identifier(name: str) -> tuple[str, ...]:
    """Return the words of an identifier, path or dotted name, lower case: `maxRetryCount` gives max, retry, count."""
    return tuple(part.lower() for part in _PARTS.findall(name) if not part.isdigit())


@lru_cache(maxsize=32768)
def _word(token: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the file and the entity that a token is ("" when it is none), and its words that can be topics."""
    token = token.rstrip(".:@-/")
    if _HEX.fullmatch(token):
        return "", "", ()
    if is_file(token):
        name = token.rpartition("/")[2]
        return token.removeprefix("./"), "", _topics(name.rpartition(".")[0] or name)
    is_name = _CODE_SIGN.search(token) or _SHOUT.fullmatch(token)
    return "", token.removesuffix("()") if is_name else "", _topics(token)


def _topics(token: str) -> tuple[str, ...]:
    """Return the words of a token that can be topics: singular, no stop words, no single letters."""
    words = (word for word in split_identifier(token) if len(word) > 1 and word not in _STOP_EN)
    return tuple(_singular(word) for word in words)


def _singular(word: str) -> str:
    if word in _NO_PLURAL:
        return word
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as", "os")):
        return word[:-1]
    return word


def is_file(token: str) -> bool:
    """Whether a word is the path or the name of a file, by its known suffix or name."""
    if token.rpartition("/")[2] in _NAMED_FILES:
        return True
    return token.rpartition(".")[2].lower() in _SUFFIXES and _FILE.match(token) is not None


@lru_cache(maxsize=16384)
def _korean(run: str) -> tuple[str, ...]:
    if run in _STOP_KO:
        return ()
    word = run
    for ending in _KO_ENDINGS:
        if run.endswith(ending) and len(run) - len(ending) >= 2:
            word = run[: -len(ending)]
            break
    return (word,) if len(word) > 1 and word not in _STOP_KO else ()


@lru_cache(maxsize=16384)
def _han(run: str, *, japanese: bool) -> tuple[str, ...]:
    """Return short runs whole and long ones as pairs; in Chinese, runs end at the characters between words."""
    found: list[str] = []
    for piece in (run,) if japanese else _HAN_GAPS.split(run):
        if 2 <= len(piece) <= 3 + japanese:
            found.append(piece)
        if len(piece) > 2:
            found += [piece[i : i + 2] for i in range(len(piece) - 1)]
    return tuple(word for word in found if word not in _STOP_HAN)


def _best(counts: dict[str, int], number: int) -> tuple[str, ...]:
    return tuple(
        sorted(counts, key=counts.__getitem__, reverse=True)[:number]
    )  # stable: equal ones stay in order
