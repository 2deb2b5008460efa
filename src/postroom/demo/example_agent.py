"""An example agent: a small program that answers mail through postroom's MCP tools. No model is involved.

postroom starts it for each new mail (`host = "command"`), with the notice as JSON on stdin and a
short-lived token in the environment. A real agent would hand the notice to a model; this one reads
the thread with a tool and answers questions with a tool. Exit status 0 says the notices were taken.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any


async def main() -> None:
    """One turn: read the notices, read their threads, answer where there is a question."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    turn = json.load(sys.stdin)
    bearer = {"Authorization": f"Bearer {os.environ['POSTROOM_TOKEN']}"}
    async with httpx2.AsyncClient(headers=bearer) as http:
        transport = streamable_http_client(f"{os.environ['POSTROOM_URL']}/mcp/email", http_client=http)
        async with Client(transport) as postroom:
            for notice in turn["notices"]:
                if notice["kind"] == "message.received":
                    await answer(postroom, notice)


async def answer(postroom: Any, notice: dict[str, Any]) -> None:
    """Read the thread; if the newest mail asks something, reply to it."""
    read = await postroom.call_tool("agentmail_get_thread", {"threadId": notice["thread_id"]})
    thread = read.structured_content
    newest = thread["messages"][-1]
    if "?" not in notice["text"]:
        return
    text = f"Thank you for your mail. I have read the {len(thread['messages'])} message(s) of this thread. The answer is: yes, at 15:00."
    replied = await postroom.call_tool("agentmail_reply", {"messageId": newest["messageId"], "text": text})
    print(json.dumps(replied.structured_content))  # to the host's log


if __name__ == "__main__":
    asyncio.run(main())
