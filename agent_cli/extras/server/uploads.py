"""Files that messages bring: received here, and moved to the task of the message that names them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request

from agent_cli import SessionStore
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import token_of
from agent_cli.extras.server.tasks import ServerTask
from agent_tools.documents.images import sniff
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_atomic
from agent_tools.text import new_uuid, one_line, shorten

MAX_UPLOAD_BYTES, MAX_TEXT_BYTES = 10 << 20, 400_000
# Files that no message has named yet: how many, and until they are removed.
_MAX_WAITING, _MAX_AGE_SECONDS = 100, 24 * 3600.0
# Time limit for receiving a file: a phone may be slow.
_RECEIVE_SECONDS = 120.0
_TEXT = "text/plain"


def _folder(hub: Hub) -> Path:
    return hub.state / "serve" / "uploads"


async def receive_upload(hub: Hub, request: Request) -> dict[str, Any]:
    """Store the body of a request as a file that a message can bring."""
    name = shorten(one_line(os.path.basename(request.query_params.get("name", "").replace("\\", "/"))), 120)
    if not name or name in (".", ".."):
        raise RequestRefusedError(400, "query", "name: the file needs a name.")
    size = request.headers.get("content-length", "")
    if size.isdigit() and int(size[:16]) > MAX_UPLOAD_BYTES:
        raise _too_large()
    folder = _folder(hub)
    await asyncio.to_thread(_make_room, folder)
    data = bytearray()
    try:
        async with asyncio.timeout(_RECEIVE_SECONDS):
            async for piece in _pieces(request):
                data += piece
                if len(data) > MAX_UPLOAD_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise RequestRefusedError(408, "slow", "The file did not arrive in time.") from None
    mime = await asyncio.to_thread(_kind, bytes(data), name)
    upload_id, user = new_uuid(), token_of(request).name
    found = {"id": upload_id, "name": name, "mime": mime, "size": len(data)}

    def store() -> None:
        fd = open_regular(folder / upload_id, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        write_atomic(folder / f"{upload_id}.json", json.dumps(found | {"user": user}).encode("ascii"))

    try:
        await asyncio.to_thread(store)
    except OSError as error:
        raise RequestRefusedError(507, "disk", f"This cannot be stored: {error.strerror or error}.") from None
    return found


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise RequestRefusedError(400, "body", "The file did not arrive whole.") from None


def _too_large() -> RequestRefusedError:
    return RequestRefusedError(413, "size", f"A file has at most {MAX_UPLOAD_BYTES >> 20} MB.")


def _kind(data: bytes, name: str) -> str:
    """Return the type of a file by its content; refuse one that no message can bring."""
    if not data:
        raise RequestRefusedError(422, "body", f"{name} is empty.")
    if (image := sniff(data)) is not None:
        return image.mime
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RequestRefusedError(415, "type", f"{name} is neither an image nor text. Put it into the project instead.")
    if len(data) > MAX_TEXT_BYTES:
        raise RequestRefusedError(413, "size", f"{name} is too long. A text has at most {MAX_TEXT_BYTES:,} bytes.")
    return _TEXT


def _make_room(folder: Path) -> None:
    """Remove files that no message has named in time; refuse another one if there are too many."""
    private_folder(folder)
    waiting = 0
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - _MAX_AGE_SECONDS:
                Path(entry.path).unlink()
            else:
                waiting += SessionStore.is_id(entry.name, whole=True)
    if waiting >= _MAX_WAITING:
        raise RequestRefusedError(507, "disk", "Too many files wait for their message: send them first.")


def check_uploads(hub: Hub, ids: list[str]) -> None:
    """Refuse a message that names a file which is not here."""
    for each in ids:
        if not SessionStore.is_id(each, whole=True) or not (_folder(hub) / f"{each}.json").is_file():
            raise RequestRefusedError(404, "upload", f"There is no file {shorten(each, 40)}: upload it again.")


def claim_uploads(hub: Hub, ids: list[str], task: ServerTask) -> None:
    """Move files to the task whose message brings them."""
    if ids:
        private_folder(task.uploads)
    for each in ids:
        for name in (each, f"{each}.json"):
            with suppress(FileNotFoundError):  # named twice in one message
                (_folder(hub) / name).rename(task.uploads / name)


def take_upload(task: ServerTask, upload_id: str) -> tuple[str, str, bytes]:
    """Return the name, the type and the content of a file that a message brings. Raises OSError, ValueError."""
    folder = task.uploads
    if not (folder / f"{upload_id}.json").exists():
        folder = task.folder.parent.parent / "uploads"  # the server ended before it was moved
    facts = json.loads(read_regular(folder / f"{upload_id}.json", 1 << 16))
    return str(facts["name"]), str(facts["mime"]), read_regular(folder / upload_id, MAX_UPLOAD_BYTES)
