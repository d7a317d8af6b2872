from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from program import PROGRAM, Program
from recall_home import SECRET, recall_home

from headwater.query.budget import estimate_tokens
from headwater.schemas import limits
from headwater.surface import server
from headwater.surface.mcp_tools import MEMORIES, TOOLS, WORKING_SET
from headwater.surface.request_context import Context


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Program]:
    """A program with a home that has something to tell, at a short path."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        root = Path(folder) / "home"
        recall_home(root)
        yield Program(root)


def test_every_tool_over_stdio(told: Program) -> None:
    """The protocol's own client drives every tool and resource of a real process, without a server and with one."""
    context = Context(told.home)
    said: dict[str, str] = {}

    async def drive() -> None:
        command = StdioServerParameters(
            command=str(PROGRAM), args=["mcp", "--project", "/p/one"], env=told.env, cwd=told.home.root
        )
        async with Client(command, read_timeout_seconds=60) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == set(TOOLS)
            assert all(tool.input_schema["type"] == "object" for tool in listed.values())
            resources = (await client.list_resources()).resources
            assert [str(one.uri) for one in resources] == [WORKING_SET, MEMORIES]

            async def call(name: str, **arguments: Any) -> str:
                result = await client.call_tool(name, arguments)
                (content,) = result.content
                assert content.type == "text"
                assert estimate_tokens(content.text) <= limits.MCP_TOKENS
                assert SECRET not in content.text
                assert bool(result.is_error) is content.text.startswith("Error: ")
                return content.text

            said["rules"] = await call("__IMPORTANT")
            said["search"] = await call("search", query="웹훅 재시도 7")
            said["timeline"] = await call("timeline", ids=["evt_s1p7"])
            said["details"] = await call("get_details", ids=["evt_s1long"])
            said["unknown"] = await call("get_observations", ids=["evt_s2long"])
            said["wrong"] = await call("search", query="x", colour="red")
            for uri in (WORKING_SET, MEMORIES):
                (text,) = (await client.read_resource(uri)).contents
                said[uri] = getattr(text, "text", "")
            assert context._stores is None
            with server._bind(told.home, context) as answering:
                threading.Thread(target=answering.serve_forever, daemon=True).start()
                said["served"] = await call("get_observations", ids=["evt_s1p7"])
                await asyncio.to_thread(answering.shutdown)

    asyncio.run(drive())
    assert "**Never** fetch all details at once" in said["rules"]
    assert "| evt_s1r7 |" in said["search"]
    assert "**[evt_s1p7]** User:" in said["timeline"]
    assert 'call get_details again with the same arguments and cursor="' in said["details"]
    assert "Error: id evt_s2long: nothing with it in this scope" in said["unknown"]
    assert "unknown, wanted one of query" in said["wrong"]
    assert "webhook" in said[WORKING_SET]
    assert "The webhook waits for the ledger." in said[MEMORIES]
    assert "## Memory Detail: evt_s1p7" in said["served"]
    assert context._stores is not None  # the answer came from the server


def test_start_up_does_not_load_the_protocol() -> None:
    """Other verbs start without the protocol's library, and so does the list of verbs."""
    seen = "import sys, headwater.surface.cli, headwater.surface.verbs.mcp"
    code = f"{seen}; print(*({{'mcp', 'torch'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
