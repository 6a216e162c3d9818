"""The tools for assistants, asked by the SDK's own client."""

import asyncio
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.projects import ProjectFolder
from tests.serve.serving import QUESTION


def test_over_stdio(folder: ProjectFolder):
    async def talk() -> tuple[Any, ...]:
        command, *arguments = folder.command_line("mcp")
        async with Client(StdioServerParameters(command=command, args=arguments, env=folder.environment)) as client:
            tools = await client.list_tools()
            found = await client.call_tool("query_data", {"query": QUESTION, "mode": "naive", "chunk_top_k": 2})
            refused = await client.call_tool("query_data", {"query": "  "})
            return tools, found, refused

    listed, found, refused = asyncio.run(talk())
    [tool] = listed.tools
    print(tool)
    print(found)
    print(refused)
