"""What stands in files that are no JSON, servers of other people, and commands that cannot be written down."""

from __future__ import annotations

import os

import pytest

from headwater.schemas.errors import InputError
from headwater.surface.install_lines import Ignored, TomlServer, check_words
from headwater.surface.install_parts import JsonServer

TOML = TomlServer(("/bin/headwater", "mcp", "--home", "/h"))


@pytest.mark.parametrize(
    "text", ["", "a = 1\n", "a = 1", "[x]\r\ny = 1\r\n", '# c\n[mcp_servers.x]\ncommand = "c"\n\n', "\n\n"]
)
def test_toml_gets_a_table_and_loses_it(text: str) -> None:
    """At the end, after an empty line; also when somebody wrote more behind it."""
    more = TOML.merge(text, "config.toml")
    assert TOML.holds(more, "config.toml")
    assert TOML.merge(more, "config.toml") == more
    assert TOML.strip(more, "config.toml", frozenset()).rstrip("\r\n") == text.rstrip("\r\n")
    behind = TOML.strip(f"{more}\n[later]\nz = 1\n", "config.toml", frozenset())
    assert "headwater" not in behind
    assert behind.endswith("[later]\nz = 1\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\nb 2\n", r"config\.toml line 2: not valid TOML"),
        ('[mcp_servers.headwater]\ncommand = "mine"\n', "is there already, not ours"),
        ('mcp_servers = {x = {command = "c"}}\n', "nothing can be added to"),
    ],
)
def test_toml_that_cannot_take_it_is_refused(text: str, said: str) -> None:
    """Broken, taken, or of a closed form."""
    with pytest.raises(InputError, match=said):
        TOML.merge(text, "config.toml")


def test_a_server_of_that_name_of_somebody_else_is_left_alone() -> None:
    """It is told, not replaced, and never removed."""
    part = JsonServer(("mcpServers",), ("/bin/headwater", "mcp"))
    text = '{\n"mcpServers": {"headwater": {"command": "/bin/flood-gauge"}}}'
    with pytest.raises(InputError, match="line 2: an MCP server 'headwater' of somebody else"):
        part.merge(text, "x")
    assert part.strip(text, "x", frozenset()) == text


def test_a_line_of_a_list_is_there_once() -> None:
    """Added at the end, with the line end that was missing; removed whole."""
    part = Ignored("/a")
    assert part.merge("x", "e") == "x\n/a\n"
    assert part.merge("/a\nx\n", "e") == "/a\nx\n"
    assert part.strip("x\n/a\r\ny", "e", frozenset()) == "x\ny"


def test_paths_that_cannot_stand_in_settings_are_told() -> None:
    """A line break, or bytes that are no text."""
    with pytest.raises(InputError, match="without line breaks"):
        check_words(("a\nb",))
    with pytest.raises(InputError, match="wanted a path in UTF-8"):
        check_words((os.fsdecode(b"/h\xff"),))
