"""The members of an archive, read within limits, and the files that they replace when they are unpacked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from agent_cli.policy.programs.effects import Unpacked
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

if TYPE_CHECKING:
    import tarfile

# Larger archives, or ones with more members, are not inspected.
_MAX_ARCHIVE_BYTES = 16 << 20
_MAX_MEMBERS = 20_000
# Slow formats of compression are given up after this.
_MAX_SECONDS = 2.0
# Magic bytes of formats that are not inspected.
_PACKED = (
    b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf", b"\x1f\x9d", b"LZIP", b"0707", b"\xc7\x71",
    b"\x71\xc7", b"!<arch>", b"Rar!",
)  # fmt: skip


class Members(Value):
    """What is in an archive.

    files: the names of its files and links. others: those of its folders, and the targets of its links.
    unread: it has links whose targets are not known.
    """

    files: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    unread: bool = False


def members(archive: str) -> list[str] | None:
    """Return the members of an archive and the targets of its links; only link targets may begin with a slash.

    Empty if it is not an archive, None if the content is unknown.
    """
    found = _members(archive)
    return None if found is None or found.unread else [*found.files, *found.others]


def replaced_by(archive: str, folder: str, how: Unpacked) -> list[str] | None:
    """Return the paths in a folder where the files of an archive are unpacked; None if its content is unknown."""
    found = _members(archive)
    return None if found is None else [os.path.join(folder, name) for name in _placed(found.files, how)]


def _placed(names: tuple[str, ...], how: Unpacked) -> Iterator[str]:
    """Yield the names that the files get. One with `..` is refused, or placed elsewhere."""
    only = [word.text.strip("/") for word in how.only]
    for name in names:
        pieces = [piece for piece in name.split("/") if piece]
        plain = "/".join(piece for piece in pieces if piece != ".")
        if ".." in pieces or (only and not any(_is_named(plain, text) for text in only)):
            continue
        # A leading ./ counts as a folder that can be dropped.
        left = [piece for piece in (pieces[-1:] if how.flat else pieces[how.strip :]) if piece != "."]
        if left:
            yield "/".join(left)


def _is_named(name: str, text: str) -> bool:
    """Return True if a word of the command names a member, or a folder that it is in. zip expands patterns."""
    text = text.removeprefix("./")
    return name == text or name.startswith(f"{text}/") or fnmatchcase(name, text)


def _members(archive: str) -> Members | None:
    try:
        state = os.stat(archive)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return _members_of(archive, state.st_ino, state.st_size, state.st_ctime_ns)


@lru_cache(maxsize=8)
def _members_of(archive: str, *_version: int) -> Members | None:
    """Read an archive. A question needs its members several times: they are read once for each version of the file."""
    import io
    import tarfile  # only for an archive that is unpacked
    import zipfile
    import zlib

    try:
        data = read_regular(archive, _MAX_ARCHIVE_BYTES)
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                listed = opened.infolist()
            linked = any(info.external_attr >> 16 & 0o170000 == 0o120000 for info in listed)
            named = [info.filename.lstrip("/") for info in listed]
            files = tuple(name for name in named if not name.endswith("/"))
            folders = tuple(name for name in named if name.endswith("/"))
            # The target of a link is in the content.
            return Members(files, folders, unread=linked) if len(listed) <= _MAX_MEMBERS else None
        if not tarfile.is_tarfile(io.BytesIO(data)):
            # Another kind of archive, or none; if it were packed beyond the limit, tar would report it as well.
            return None if data.startswith(_PACKED) else Members()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return _of_tar(iter(tar))
    except (OSError, EOFError, ValueError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error):
        return None


def _of_tar(tar: Iterator[tarfile.TarInfo]) -> Members | None:
    files: list[str] = []
    others: list[str] = []
    read = 0
    until = time.monotonic() + _MAX_SECONDS
    for member in tar:
        read += member.size
        if len(files) + len(others) > _MAX_MEMBERS or read > 8 * _MAX_ARCHIVE_BYTES or time.monotonic() > until:
            return None
        (others if member.isdir() else files).append(member.name.lstrip("/"))
        if member.issym():
            others.append(os.path.join(os.path.dirname(member.name), member.linkname))  # noqa: PTH120
        elif member.islnk():
            others.append(member.linkname.lstrip("/"))
    return Members(tuple(files), tuple(others))
