"""Secrets and private passages never get past the cleaning; what only looks like one stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.surface import cleaning, hook
from headwater.surface.hook import clean_payload, redact

DATA = Path(__file__).resolve().parent.parent / "data"
MIXED = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7k"  # 40 characters; families are put together here, never written out
KEY_LINE = "MIIEowIBAAKCAQEAx9Zk3yq1bqv5n0Pz2h7rV5wq8K1s0a2d4f6g8h0j2k4l6z8x"
JWT = f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{'zdWIiOiIxMjM0In0'}.{MIXED}"

TOKENS = {
    "anthropic": "sk-" + "ant-api03-" + MIXED,
    "openrouter": "sk-" + "or-v1-" + MIXED.lower(),
    "openai": "sk-" + "proj-" + MIXED,
    "openai-old": "sk-" + MIXED,
    "stripe": "sk_" + "live_" + MIXED,
    "stripe-test": "rk_" + "test_" + MIXED,
    "github": "gh" + "p_" + MIXED,
    "github-server": "gh" + "s_" + MIXED,
    "github-fine": "github" + "_pat_" + MIXED,
    "gitlab": "gl" + "pat-" + MIXED[:20],
    "huggingface": "hf" + "_" + MIXED,
    "npm": "np" + "m_" + MIXED[:36],
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + MIXED,
    "slack": "xo" + "xb-123456789012-" + MIXED,
    "slack-hook": "https://hooks.slack" + ".com/services/T00000000/B00000000/" + MIXED[:24],
    "aws": "AK" + "IAQ3EGUZ5XN7WK2M4P",
    "aws-temporary": "AS" + "IAQ3EGUZ5XN7WK2M4P",
    "google": "AI" + "za" + MIXED[:35],
    "webhook": "wh" + "sec_" + MIXED,
    "jwt": JWT,
}

ASSIGNED = [
    "PGPASSWORD=@ psql -h db",
    "export DB_PASSWORD=@",
    "AWS_SECRET_ACCESS_KEY=@",
    "password: @",
    "password = @",
    'password = "@"',
    '"password": "@"',
    '"password" : "@"',
    r"{\"password\": \"@\"}",
    "'password' => '@',",
    'password: str = "@"',
    "?user=a&password=@&page=2",
    "mysql --password=@ db",
    "mysql --password @ db",
    "my password is @",
    "the password is @.",
    "비밀번호는 @ 입니다",
    "パスワードは@です",
    "密码是@",
    "<password>@</password>",
    "api_key: '@'",
    "client_secret=@",
    'token = "@"',
    '"access_token":"@"',
    "x-api-key: @",
    "Authorization: Bearer @",
    "authorization: basic @",
    '{"Authorization": "Bearer @"}',
    "postgres://user:@@host/db",
    "redis://:@@host:6379/0",
    "curl -u admin:@ https://host",
    "machine host login me password @",
    'password="@',
    "token: password: @",
]

HARMLESS = [
    "token_count: 12",
    "tokens = 42",
    "max_tokens=2000",
    "token: 12345678",
    "password = get_password()",
    "token: str",
    "def login(token: str, password: str | None = None) -> None:",
    "password: SecretStr",
    "interface A { password: string; token: Uint8Array }",
    'password = os.environ["DB_PASSWORD"]',
    "connect(password=password, token=token)",
    "PASSWORD=$OTHER",
    "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
    "the password is required, and the token is expired",
    "Forgot password: click here",
    "PWD=/home/u/project",
    "PASSWORD_MIN_LENGTH=8",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "123e4567-e89b-12d3-a456-426614174000",
    '"integrity": "sha512-V2hhdCBhIG5pY2UgaW50ZWdyaXR5IHN0cmluZyB0aGlzIGlzIGFuZCBtb3JlIG9mIGl0IQ=="',
    "https://github.com/a/b@v1 and http://localhost:8080/@scope/pkg and git@github.com:o/r.git",
    "disk-management-of-many-things, npm_config_registry, risk-adjusted",
    "secret = sha256_hex_digest",
    "const token = await getToken(request)",
    "<privateKey>of the model</privateKey>",
    'TIMESTAMP="$(date -u +%Y-%m-%dT%H:%M:%S)"',
]


@pytest.mark.parametrize("family", TOKENS)
@pytest.mark.parametrize(
    "frame", ["{}", "a {} b", 'x="{}"', r"line\n{}\nline", "({})", "https://h/?k={}&x=1"]
)
def test_token_of_a_known_family_is_replaced(family: str, frame: str) -> None:
    """A token of each family goes, wherever it stands."""
    secret = TOKENS[family]
    result = redact(frame.format(secret))

    assert "[redacted:" in result
    assert secret[-12:] not in result
    assert secret[-24:-12] not in result


@pytest.mark.parametrize("frame", ASSIGNED)
def test_value_of_a_secret_name_is_replaced(frame: str) -> None:
    """What a secret name is given goes; the name stays."""
    value = "hunter2Pq9zX4"
    start, _, end = frame.partition("@")
    result = redact(start + value + end)

    assert value not in result
    assert "[redacted:" in result
    assert result.startswith(start[:4])


@pytest.mark.parametrize(
    "text", ["PGPASSWORD=hunter2 psql", '"password": "x"', "password is x", "password: letmein"]
)
def test_weak_password_is_a_password(text: str) -> None:
    """A password need not look like a secret."""
    assert "[redacted:password]" in redact(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Code, counts, hashes and prose are untouched."""
    assert redact(text) == text


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA "])
@pytest.mark.parametrize("newline", ["\n", "\r\n", r"\n", "\n+", "\n   12→"])
def test_private_key_block_is_replaced(kind: str, newline: str) -> None:
    """A key block goes as a whole: escaped, in a diff, with line numbers."""
    lines = [
        f"-----BEGIN {kind}PRIVATE KEY-----",
        *[KEY_LINE] * 5,
        "abc=",
        f"-----END {kind}PRIVATE KEY-----",
    ]
    result = redact("before" + newline + newline.join(lines) + newline + "after")

    assert KEY_LINE[:8] not in result
    assert "abc=" not in result
    assert result.startswith("before")
    assert result.endswith("after")


@pytest.mark.parametrize(
    "text", ["-----BEGIN RSA PRIVATE KEY-----\n@\n@\n@", "@\n@\n-----END RSA PRIVATE KEY-----\n"]
)
def test_truncated_private_key_is_replaced(text: str) -> None:
    """A block that lost its END or its BEGIN goes as well."""
    result = redact(text.replace("@", KEY_LINE))

    assert KEY_LINE not in result
    assert "[redacted:private_key]" in result


def test_text_after_a_truncated_key_stays() -> None:
    """What follows a key without END is kept from the first line that is no key."""
    text = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\nThe key above is old.\n"

    assert redact(text) == "[redacted:private_key]\nThe key above is old.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>s3cret</private> b", "a [private] b"),
        ("a <PRIVATE>s3cret</Private> b", "a [private] b"),
        ('a < private  class="x" >s3cret< / private > b', "a [private] b"),
        ("a <private>s3cret\n\n<private>s3cret</private>s3cret</private> b", "a [private] b"),
        ("a <private>s3cret <private>s3cret</private> s3cret", "a [private]"),
        ("a <private>s3cret", "a [private]"),
        ("a <private s3cret", "a [private]"),
        ("s3cret</private> b", "[private] b"),
        ("s3cret <private>s3cret</private> s3cret</private> b", "[private] b"),
        ("<private>s3cret</private><private>s3cret</private>", "[private][private]"),
        (r"a \u003cprivate\u003es3cret\u003c/private\u003e b", "a [private] b"),
        ("a <private/> b", "a <private/> b"),
        ("a private matter", "a private matter"),
    ],
)
def test_private_passages_are_replaced(text: str, expected: str) -> None:
    """Any form of the tags works, and where they do not pair up more is private, never less."""
    assert redact(text) == expected


@pytest.mark.parametrize("field", ["prompt", "tool_input", "tool_response", "last_assistant_message"])
def test_private_and_secret_go_from_every_field(field: str) -> None:
    """No field of a payload is passed over, however deep, keys included."""
    secret = TOKENS["github"]
    text = f"a <private>s3cret</private> {secret}"
    cleaned, _ = clean_payload({field: {"deep": [{"x": text}, text], text: 1}})
    shown = json.dumps(cleaned)

    assert "s3cret" not in shown
    assert secret not in shown
    assert shown.count("[redacted:github]") == 3


def test_private_passage_over_the_lines_of_a_list_is_replaced() -> None:
    """A patch is a list of lines: a passage or a key that spans them goes as a whole."""
    lines = [
        " a",
        "+<private>",
        "+s3cret",
        "+</private>",
        "+-----BEGIN PRIVATE KEY-----",
        f"+{KEY_LINE}",
        " b = 1",
    ]
    cleaned, _ = clean_payload(
        {"structuredPatch": [{"lines": lines}], "args": ["db", "--password", "hunter2"]}
    )

    assert cleaned["structuredPatch"][0]["lines"] == [" a", "+[private]", "+[redacted:private_key]", " b = 1"]
    assert cleaned["args"] == ["db", "--password", "[redacted:password]"]


def test_private_tags_are_matched_on_the_whole_text() -> None:
    """Tags further apart than the clip still enclose what lies between."""
    inside = "s3cret " * 50_000
    cleaned, clipped = clean_payload({"prompt": f"a <private>{inside}</private> b"})

    assert cleaned == {"prompt": "a [private] b"}
    assert clipped == {}


@pytest.mark.parametrize("shift", range(0, 60, 7))
@pytest.mark.parametrize("end", ["head", "tail"])
def test_secret_across_the_cut_leaves_nothing(shift: int, end: str) -> None:
    """Wherever the cut falls in a secret, no part of it stays."""
    secret = TOKENS["anthropic"]
    kept = (hook.CLIP_CHARS - cleaning._MARKER_CHARS) // 2
    lead = "w " * ((kept - shift) // 2)
    rest = "w " * 100_000
    cleaned, clipped = clean_payload({"x": lead + secret + rest if end == "head" else rest + secret + lead})

    assert "ant-api03" not in cleaned["x"]
    assert not any(secret[at : at + 8] in cleaned["x"] for at in range(3, len(secret) - 8))
    assert len(cleaned["x"]) <= hook.CLIP_CHARS
    assert clipped == {"x": len(lead + secret + rest)}


def test_private_key_across_the_cut_leaves_nothing() -> None:
    """A key block that is longer than what is seen of it at the cut goes too."""
    block = "\n".join(["-----BEGIN PRIVATE KEY-----", *[KEY_LINE] * 50, "-----END PRIVATE KEY-----", ""])
    half = "w " * (hook.CLIP_CHARS // 4 - 700)
    cleaned, _ = clean_payload({"x": half + block + "w " * 100_000 + block + half})

    assert KEY_LINE[:10] not in cleaned["x"]


def test_many_secrets_beside_the_cut_do_not_push_one_out() -> None:
    """Placeholders shorter or longer than their secrets never move an unseen part of a secret into view."""
    for piece in (f"{TOKENS['jwt']} ", 'password="x" '):
        text = piece * 4000
        for cut in range(0, 40, 13):
            cleaned, _ = clean_payload({"x": "w" * cut + text})
            assert MIXED[5:15] not in cleaned["x"]
            assert 'd="x"' not in cleaned["x"]


def test_redaction_of_real_payloads_changes_nothing() -> None:
    """Recorded payloads without secrets come through as they are, but for whole old files."""
    for line in (DATA / "hook_payloads.jsonl").read_text(encoding="utf-8").splitlines():
        payload = json.loads(line)
        cleaned, clipped = clean_payload(payload)
        for path in clipped:
            assert path == "tool_response.originalFile"
            payload["tool_response"]["originalFile"] = None
        assert cleaned == payload


def test_secret_of_a_key_with_a_secret_name_is_replaced() -> None:
    """In JSON the name is the key: passwords go, counts and page numbers stay."""
    cleaned, _ = clean_payload(
        {"input": {"password": "x", "apiKey": "abcd1234", "pwd": "/home/u", "token": "word"}}
    )

    assert cleaned["input"] == {
        "password": "[redacted:password]",
        "apiKey": "[redacted:secret]",
        "pwd": "/home/u",
        "token": "word",
    }


@given(st.text(alphabet=st.sampled_from("</>privateX =:\"'\\n\n-_password1sk")))
def test_redaction_is_idempotent(text: str) -> None:
    """A second pass finds nothing left."""
    once = redact(text)

    assert redact(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "<private ",
        "<" + " " * 50,
        "password=",
        "token:",
        "eyJ",
        ".eyJ",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "bearer a",
    ],
)
def test_hostile_text_ends(unit: str) -> None:
    """A text made to be slow for patterns is done all the same; the test's own time limit is the bound."""
    assert isinstance(redact(unit * (1_000_000 // len(unit))), str)
