"""agentmail-toolkit as published, in an environment of its own: every tool, through one framework's adapter.

Usage: python scenario.py URL OWNER_KEY AGENT_TOKEN langchain|openai. Prints what the tools answered as JSON.
"""

import asyncio
import json
import sys
import time
from typing import Any

from agentmail import AgentMail, AgentMailEnvironment

url, owner_key, agent_token, adapter = sys.argv[1:]


def toolkit(key: str) -> Any:
    client = AgentMail(environment=AgentMailEnvironment(http=url, websockets=url.replace("http", "ws")), api_key=key)
    if adapter == "langchain":
        from agentmail_toolkit.langchain import AgentMailToolkit
    else:
        from agentmail_toolkit.openai import AgentMailToolkit
    return AgentMailToolkit(client)


def call(kit: Any, name: str, **arguments: Any) -> Any:
    """One tool call as the framework makes it; an error is its text."""
    (tool,) = kit.get_tools([name])
    if adapter == "langchain":
        answer = tool.invoke(arguments)
        return answer if isinstance(answer, str) or answer is None else json.loads(answer.model_dump_json())
    try:
        answer = asyncio.run(tool.on_invoke_tool(None, json.dumps(arguments)))
    except RuntimeError as problem:
        return str(problem)
    return None if answer == "OK" else json.loads(answer)


def until(look: Any) -> Any:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise TimeoutError


owner, agent = toolkit(owner_key), toolkit(agent_token)
said: dict[str, Any] = {"tools": sorted(tool.name for tool in owner.get_tools())}
nora = call(owner, "create_inbox", username="nora", display_name="Nora")["inbox_id"]
omar = call(owner, "create_inbox", username="omar")["inbox_id"]
said["inboxes"] = sorted(inbox["inbox_id"] for inbox in call(owner, "list_inboxes", limit=10)["inboxes"])
said["inbox"] = call(owner, "get_inbox", inbox_id=nora)["display_name"]

file = {"filename": "a.txt", "content_type": "text/plain", "content": "ZmlsZQ=="}
call(owner, "send_message", inbox_id=nora, to=[omar], subject="Price?", text="What is it?", attachments=[file])
thread = until(lambda: call(owner, "list_threads", inbox_id=omar, labels=["received"])["threads"])[0]
whole = call(owner, "get_thread", inbox_id=omar, thread_id=thread["thread_id"])
message = whole["messages"][0]
said["thread"] = [thread["subject"], message["extracted_text"].strip()]
attachment = message["attachments"][0]["attachment_id"]
said["attachment"] = call(owner, "get_attachment", inbox_id=omar, thread_id=thread["thread_id"], attachment_id=attachment)[
    "filename"
]
labels = call(
    owner, "update_message", inbox_id=omar, message_id=message["message_id"], add_labels=["done"], remove_labels=["unread"]
)
said["labels"] = sorted(labels["labels"])
call(owner, "reply_to_message", inbox_id=omar, message_id=message["message_id"], text="Ten.")
until(lambda: call(owner, "list_threads", inbox_id=nora, labels=["received"])["threads"])
forwarded = call(owner, "forward_message", inbox_id=omar, message_id=message["message_id"], to=[nora], text="see below")
said["forwarded"] = bool(forwarded["message_id"])

said["held"] = call(agent, "send_message", inbox_id="scout@postroom.localhost", to=[nora], subject="s", text="t")
said["foreign"] = call(agent, "get_inbox", inbox_id=nora)
said["human"] = call(owner, "agent_verify", otp_code="123456")
call(owner, "delete_inbox", inbox_id=omar)
said["deleted"] = call(owner, "get_inbox", inbox_id=omar)
sys.stdout.write(json.dumps(said))
