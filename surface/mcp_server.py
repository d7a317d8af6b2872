"""The MCP server: our tools and resources, spoken over stdin and stdout by the protocol's own library."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from headwater.schemas.errors import HeadwaterError
from headwater.surface.mcp_tools import RESOURCES, RULES, TOOLS

if TYPE_CHECKING:
    from headwater.surface.mcp_tools import MemoryTools

_READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


def serve_stdio(tools: MemoryTools) -> None:
    """Answer on stdin and stdout until the client goes. Nothing else is written to stdout: it is diverted meanwhile."""
    asyncio.run(_serve(make_server(tools)))


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(tools: MemoryTools) -> Server[Any]:
    """Return a server with our tools and resources; each call runs in a thread, for stores block."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name) for name in TOOLS])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await asyncio.to_thread(tools.call, params.name, params.arguments)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)], is_error=answer.is_error
        )

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        found = [
            types.Resource(uri=uri, name=title, description=says, mime_type="text/plain")
            for uri, (_, title, says) in RESOURCES.items()
        ]
        return types.ListResourcesResult(resources=found)

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await asyncio.to_thread(tools.read, uri)
        except HeadwaterError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "headwater",
        version=version("headwater"),
        instructions=RULES,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _tool(name: str) -> types.Tool:
    tool = TOOLS[name]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(tool.arguments),
        "additionalProperties": False,
    }
    if tool.required:
        schema["required"] = list(tool.required)
    return types.Tool(name=name, description=tool.description, input_schema=schema, annotations=_READ_ONLY)
