"""A server of the standard library that knows one way to begin, and does with the other what its first argument says.

The second argument is a folder: each process appends what it receives to `heard`, and a process that was not the first
ends if there is a file `alone`. A process with "slow" answers `server/discover` once there is a file `go`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

MODE, FOLDER = sys.argv[1], Path(sys.argv[2])
CAPABLE = {"tools": {}}
BEGINS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": CAPABLE, "serverInfo": {"name": "t"}},
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": CAPABLE, "resultType": "complete"},
}
TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}], "resultType": "complete"}


def main() -> None:
    mode = (FOLDER / "mode").read_text() if (FOLDER / "mode").exists() else MODE
    known = "server/discover" if mode.startswith("new") or mode == "slow" else "initialize"
    if (FOLDER / "heard").exists() and (FOLDER / "alone").exists():
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        method = message["method"]
        with (FOLDER / "heard").open("a") as heard:
            heard.write(f"{os.getpid()} {method}\n")
        if mode == "mute":
            continue
        answer = {"result": TOOLS if method == "tools/list" else BEGINS.get(method)}
        if method in BEGINS and method != known:
            if mode.endswith("exit"):
                sys.exit(2)
            if mode.endswith("silent"):
                continue
            answer = {"error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}}
            if known == "initialize":
                answer = {"error": {"code": -32601, "message": "Method not found"}}
        if mode == "slow" and method == known:
            while not (FOLDER / "go").exists():
                time.sleep(0.01)
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


main()
