"""A small server with one of everything, over its standard streams, or over HTTP with --http PORT_FILE [sse]."""

from __future__ import annotations

import os
import socket
import struct
import sys
import zlib
from pathlib import Path
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("good", version="1")


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\x00\xff\x00\x00" * 2)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 2, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def env(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "(unset)")


@server.tool()
async def large(ctx: Context, size: int) -> str:
    """So many characters, behind a word of progress, which makes a stream of the answer over HTTP."""
    await ctx.report_progress(1, 2, "soon")
    return "x" * size


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("the moon is full")


@server.tool(structured_output=False)
def picture() -> Image:
    """A picture."""
    return Image(data=png(), format="png")


@server.tool()
async def slow(ctx: Context, seconds: float = 30.0, mark: str = "") -> str:
    """Takes its time, and says how far it is."""
    try:
        for step in range(int(seconds * 20)):
            await ctx.report_progress(step, seconds * 20, "working")
            await anyio.sleep(0.05)
    except anyio.get_cancelled_exc_class():
        if mark:
            Path(mark).write_text("cancelled")
        raise
    return "done"


@server.tool()
def die() -> str:
    """Ends the process."""
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(3)


class Name(BaseModel):
    name: str
    loud: bool = False


async def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
async def greet(answer: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    """Asks for a name and greets."""
    if answer.action != "accept":
        return f"nobody ({answer.action})"
    text = f"hello {answer.data.name}"
    return text.upper() if answer.data.loud else text


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool."""

    def grown() -> str:
        """It was not there before."""
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "a tool was added"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "buy milk"


@server.prompt()
def review(file: str, tone: str = "kind") -> str:
    """Reviews a file."""
    return f"Review {file} and be {tone}."


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--http":
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        Path(sys.argv[2]).write_text(str(port))
        server.run("sse" if sys.argv[3:] == ["sse"] else "streamable-http", port=port)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
