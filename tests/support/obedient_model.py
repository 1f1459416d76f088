"""A model that makes the calls that a message asks for, for the end-to-end tests of other programs.

It reads the user's last message, calls the tools that the message names, and answers when their results are there.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agent_cli.kernel.results import Usage
from tests.support.model_server import Call, Received, Reply

_USAGE = Usage(input=900, output=40)
Blocks = list[dict[str, Any]]


def answer_request(received: Received) -> Reply:
    """Return the answer to a request of the Messages API."""
    body = received.body
    if "nonexistent" in str(body.get("model")):
        return Reply(status=404, error=f"model: {body['model']}", error_type="not_found_error")
    asked, done = _asked(body)
    tools = {t["name"]: t for t in body.get("tools", ())}
    thought = "Let me think about the numbers: 2 + 2 is 4, so the answer is clear."
    thinking = thought if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive") else ""
    number = len(body["messages"])
    base = Reply(thinking=thinking, signature="s" if thinking else "", usage=_USAGE, id=f"msg_{number}")
    wanted = _calls(asked, tools)
    if done < len(wanted):
        name, arguments = wanted[done]
        return base.replace(calls=(Call(name, arguments, f"toolu_{number:03d}"),))
    return base.replace(text=_answer(asked), split=6)


def _asked(body: dict[str, Any]) -> tuple[str, int]:
    """Return the text of the user's last message, and how many calls were made since."""
    done = 0
    for message in reversed(body["messages"]):
        content = message["content"]
        blocks: Blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            done += sum(b["type"] == "tool_use" for b in blocks)
            continue
        text = "\n".join(b["text"] for b in blocks if b["type"] == "text" and not b["text"].startswith("<"))
        if text.strip():
            return text, done
    return "", done


def _calls(asked: str, tools: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that a message asks for, in order, of those that are offered."""
    found: list[tuple[str, dict[str, Any]]] = []
    if match := re.search(r"Use the Write tool to create the file (\S+) containing exactly the text (\w+)", asked):
        found.append(("Write", {"file_path": match[1], "content": match[2]}))
    elif "Use the Agent tool" in asked or "Use the Task tool" in asked:
        kind = re.search(r"subagent_type '([\w-]+)'", asked)
        arguments = {
            "description": "Say hi",
            "prompt": "say hi",
            "subagent_type": kind[1] if kind else "general-purpose",
        }
        found.append(("Agent" if "Agent" in tools else "Task", arguments))
    elif match := re.search(r"^Call the tool (\w+) with (\{.*\})$", asked, re.MULTILINE):
        found.append((match[1], json.loads(match[2])))
    elif match := re.search(r"^Run(?: the command| this bash command)?: (.+)$", asked, re.MULTILINE):
        found.append(("Bash", {"command": match[1], "description": "Run what was asked"}))
    elif "greet tool" in asked and "echo tool" in asked:
        found += [("mcp__test__greet", {"name": "Alice"}), ("mcp__test__echo", {"text": "test"})]
    else:
        for name in dict.fromkeys(re.findall(r"mcp__\w+", asked)):
            schema = tools.get(name, {}).get("input_schema", {})
            values = {key: re.search(rf"{key}='([^']*)'", asked) for key in schema.get("properties", {})}
            found.append((name, {key: match[1] if match else "any" for key, match in values.items()}))
    if "StructuredOutput" in tools:
        if "tools" in asked.lower() or "Grep" in asked:
            found.append(("Glob", {"pattern": "**/*.py"}))
        found.append(("StructuredOutput", _fitting(tools["StructuredOutput"]["input_schema"])))
    return [(name, arguments) for name, arguments in found if name in tools or name.startswith("mcp__")]


# What the questions of those tests have as their right answers, by the name of the property.
_ANSWERS = {"word_count": 2, "character_count": 11, "words": ["Hello", "world"], "file_count": 20, "has_tests": True,
            "test_framework": "pytest"}  # fmt: skip


def _fitting(schema: dict[str, Any], name: str = "") -> Any:
    """Return a value that fits a schema."""
    if name in _ANSWERS:
        return _ANSWERS[name]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {key: _fitting(value, key) for key, value in schema.get("properties", {}).items()}
        case "array":
            return [_fitting(schema.get("items", {}))]
        case "number" | "integer":
            return 3
        case "boolean":
            return False
        case _:
            return "text"


def _answer(asked: str) -> str:
    if match := re.search(r"Reply with exactly: (\w+)", asked):
        return match[1]
    if "say hi" in asked and "Agent tool" not in asked:
        return "Hi there, lovely to meet you!"
    return "DONE" if "DONE" in asked else f"Here is the answer to: {json.dumps(asked[:60])}"
