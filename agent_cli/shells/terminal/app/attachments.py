"""Images in a message: pasted by path, from the clipboard, or mentioned; each is shown as a placeholder in the line."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from agent_tools.process.child import run_child
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import one_line

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_PLACEHOLDER = re.compile(r"\[Image #(\d{1,9}) [^\]]*\]")
_SUFFIX = r"\.(?:png|jpe?g|gif|webp)"
_MENTION = re.compile(rf"""(?<![\w@`])@(?:"([^"\n]+{_SUFFIX})"|([^\s"]\S*{_SUFFIX})(?![\w.]))""", re.IGNORECASE)
# A path that was typed: one that says where it begins, so that a mere name of a file is a word.
_PATH = re.compile(
    rf"""(?<![\w@`"'/])(?:"((?:file://)?[~.]{{0,2}}/[^"\n]+{_SUFFIX})"|'((?:file://)?[~.]{{0,2}}/[^'\n]+{_SUFFIX})'"""
    rf"""|((?:file://)?[~.]{{0,2}}/(?:\\.|[^\s\\"'`])+{_SUFFIX})(?![\w.]))""",
    re.IGNORECASE,
)
_SECONDS, _MAX_BYTES = 5.0, 20_000_000
# Commands that write the clipboard image as PNG to stdout, by the variable of the display they need.
_CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ["wl-paste", "--no-newline", "--type", "image/png"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]),
)
_MAC_COMMAND = ["osascript", "-e", "the clipboard as «class PNGf»"]


class ImageAttachments:
    """The images of a session, by the number in their placeholder."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def from_clipboard(self) -> str | None:
        """Return the placeholder for the clipboard image; None if there is none. Runs a program, which is slow."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True)
        path = clipboard_image(Path(self._folder.name))
        return self.add(path) if path is not None else None

    def add(self, path: Path) -> str:
        """Return the placeholder for an image."""
        number = len(self._paths) + 1
        self._paths[number] = path
        return f"[Image #{number} {one_line(path.name).replace(']', '')}]"

    def from_paste(self, text: str) -> str | None:
        """Return placeholders for pasted image paths, as terminals insert dropped files; None for other text."""
        if "\n" in text.strip() or len(text) > 4096:
            return None
        try:
            words = shlex.split(text)
        except ValueError:
            return None
        paths = [Path(os.path.expanduser(word.removeprefix("file://"))) for word in words]
        if not paths or not all(p.is_absolute() and p.suffix.lower() in SUFFIXES and _is_file(p) for p in paths):
            return None
        return " ".join(map(self.add, paths))

    def placeholder_length(self, text: str) -> int:
        """Return the length of the placeholder that a text ends with; 0 for none."""
        found = next(
            (m for m in _PLACEHOLDER.finditer(text) if m.end() == len(text) and int(m[1]) in self._paths), None
        )
        return len(found[0]) if found else 0

    def images_in(self, text: str, *folders: Path) -> list[Path]:
        """Return the images of a message: by placeholder, `@path` in the first folder that has it, or typed path."""
        found = [self._paths[int(n)] for n in _PLACEHOLDER.findall(text) if int(n) in self._paths]
        for quoted, bare in _MENTION.findall(text):
            name = os.path.expanduser(quoted or bare)
            paths = [path for folder in folders if _is_file(path := folder / name)]
            found += paths[:1]
        return list(dict.fromkeys([*found, *typed_images(text, *folders)]))


def typed_images(text: str, *folders: Path) -> list[Path]:
    """Return the images whose paths were typed."""
    found: list[Path] = []
    for quoted, single, bare in _PATH.findall(text):
        name = (quoted or single or re.sub(r"\\(.)", r"\1", bare)).removeprefix("file://")
        found += [path for folder in folders if _is_file(path := folder / os.path.expanduser(name))][:1]
    return found


def _is_file(path: Path) -> bool:
    """Return True if a typed path is a file; it may be a path that cannot exist or be read."""
    return os.path.isfile(path)  # noqa: PTH113 - the method raises then


def clipboard_image(folder: Path) -> Path | None:
    """Save the clipboard image in `folder`; None if there is none, or no program to read it."""
    commands = [_MAC_COMMAND] if sys.platform == "darwin" else [c for name, c in _CLIPBOARDS if os.environ.get(name)]
    env = without_secrets(os.environ)
    for command in commands:
        try:
            # AppleScript prints each byte as two hex digits.
            done = run_child(command, seconds=_SECONDS, most=2 * _MAX_BYTES + 100, env=env)
        except (OSError, TimeoutError, OverflowError):
            continue
        data = _decode_applescript(done.out) if sys.platform == "darwin" else done.out
        if done.code == 0 and data.startswith(b"\x89PNG") and len(data) <= _MAX_BYTES:
            path = folder / f"clipboard-{os.urandom(4).hex()}.png"
            path.write_bytes(data)
            return path
    return None


def _decode_applescript(encoded: bytes) -> bytes:
    """Decode AppleScript's form of bytes, «data PNGf8950…»."""
    match = re.search(rb"PNGf([0-9A-F]+)", encoded)
    return bytes.fromhex(match[1].decode()) if match else b""
