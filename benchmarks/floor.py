"""The floor: a bare script that sends the same requests, runs the same commands and prints the answer.

Nothing of the program is imported here. Usage: floor.py PORT PATH BODY_FILE; the body is the program's own first
request.
"""

import http.client
import json
import ssl  # noqa: F401 - a real endpoint needs it, so the floor pays for it
import sys
from typing import Any

HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none", "x-api-key": "none"}
HEAD, TAIL = 10_000, 20_000


def read(response: http.client.HTTPResponse) -> tuple[str, dict[int, dict[str, str]]]:
    """The text and the calls of a streamed answer of any protocol."""
    texts: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("choices"):
            delta = event["choices"][0]["delta"]
            if delta.get("content"):
                texts.append(delta["content"])
            for call in delta.get("tool_calls", ()):
                known = calls.setdefault(call["index"], {"id": call.get("id", ""), "name": "", "arguments": ""})
                known["name"] += call["function"].get("name", "")
                known["arguments"] += call["function"].get("arguments", "")
        elif event.get("type") == "response.output_text.delta":
            texts.append(event["delta"])
        elif event.get("type") == "response.output_item.done" and event["item"]["type"] == "function_call":
            item = event["item"]
            calls[event["output_index"]] = {
                "id": item["call_id"], "name": item["name"], "arguments": item["arguments"],
            }  # fmt: skip
        elif event.get("type") == "content_block_delta":
            texts.append(event["delta"].get("text", ""))
    return "".join(texts), calls


def run(arguments: str) -> str:
    """The output of a command, cut where the program cuts it."""
    import subprocess

    done = subprocess.run(
        ["bash", "-c", json.loads(arguments)["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    return output if len(output) <= HEAD + TAIL else output[:HEAD] + output[-TAIL:]


def main() -> None:
    """Ask, run what is called, ask again; print the last answer."""
    port, path, body_file = sys.argv[1:]
    with open(body_file, "rb") as file:
        body: dict[str, Any] = json.load(file)
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    while True:
        connection.request("POST", path, json.dumps(body), HEADERS)
        text, calls = read(connection.getresponse())
        if not calls:
            print(text)
            return
        if "input" in body:
            for call in calls.values():
                asked = {"type": "function_call", "call_id": call["id"], "name": call["name"]}
                body["input"].append({**asked, "arguments": call["arguments"]})
            for call in calls.values():
                output = {"type": "function_call_output", "call_id": call["id"], "output": run(call["arguments"])}
                body["input"].append(output)
            continue
        functions = [{"name": c["name"], "arguments": c["arguments"]} for c in calls.values()]
        ids = [c["id"] for c in calls.values()]
        made = [{"id": i, "type": "function", "function": f} for i, f in zip(ids, functions, strict=True)]
        body["messages"].append({"role": "assistant", "content": text or None, "tool_calls": made})
        for call in calls.values():
            output = run(call["arguments"])
            body["messages"].append({"role": "tool", "tool_call_id": call["id"], "content": output})


main()
