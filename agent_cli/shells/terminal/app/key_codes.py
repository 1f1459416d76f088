"""Translate keys from newer encodings of terminals into the older one that prompt-toolkit reads.

Newer ones are CSI u, also with the events and modifiers of kitty, and modifyOtherKeys of xterm (`CSI 27;...~`). They
are never asked for, but some terminals and multiplexers always use them, and a program that was killed leaves them on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEY = re.compile(r"\x1b\[(\d*(?::\d*)*(?:;[\d:]*)*)([u~A-HPQS])")
_SHIFT, _ALT, _CONTROL, _LOCKS, _RELEASED = 1, 2, 4, 64 | 128, "3"
# Keys that Unicode does not have, in kitty's numbers: those of the keypad have older codes, the others are left out.
_PRIVATE = range(57344, 63744)
_KEYPAD = dict(enumerate("0123456789./*-+\r=,", 57399)) | dict(
    enumerate((f"\x1b[{end}" for end in ("D", "C", "A", "B", "5~", "6~", "H", "F", "2~", "3~")), 57417)
)
# What Ctrl makes of characters other than letters.
_CONTROLS = dict(zip(" @2345678[\\]^_/?", "\0\0\0\x1b\x1c\x1d\x1e\x1f\x7f\x1b\x1c\x1d\x1e\x1f\x1f\x7f", strict=True))


def translate_keys(data: str) -> Iterator[str]:
    """Yield input in the older encoding. A piece "\\x1b" is the Escape key; in longer ones it begins a sequence."""
    end = 0
    for match in _KEY.finditer(data):
        if (key := _legacy(match[1], match[2])) is not None:
            yield data[end : match.start()]
            yield key
            end = match.end()
    yield data[end:]


def _legacy(written: str, final: str) -> str | None:
    """Return a key in the older encoding, "" for a release or an unknown key; None if it is in the older one."""
    fields = [part.split(":") for part in written.split(";")]
    if final == "~" and fields[0] == ["27"] and len(fields) == 3:
        fields, final = [fields[2], fields[1]], "u"
    modifiers, event = [*fields[1], ""][:2] if len(fields) > 1 else ("", "")
    held = max(int(modifiers or 1) - 1, 0) & ~_LOCKS
    if event == _RELEASED:
        return ""
    number = fields[0][0]
    if final != "u":
        if len(fields) != 2 or (modifiers == str(held + 1) and not event):
            return None
        return f"\x1b[{number};{held + 1}{final}" if held else f"\x1b[{number if final == '~' else ''}{final}"
    code = int(number or 0)
    if code < 8:
        return None
    if code in _PRIVATE or code > 0x10FFFF or held > _SHIFT | _ALT | _CONTROL:
        return _KEYPAD.get(code, "")
    text = "".join(chr(int(each)) for each in fields[2] if each) if len(fields) > 2 else ""
    shifted = chr(int(fields[0][1])) if len(fields[0]) > 1 and fields[0][1] else ""
    return _character(chr(code), held, text, shifted)


def _character(key: str, held: int, text: str, shifted: str) -> str:
    """Return a key that has a character. text: what it types; shifted: its character with Shift; "" if not told."""
    alt = "\x1b" if held & _ALT else ""
    if key == "\r":
        return "\x1b\r" if held & (_SHIFT | _ALT) else key
    if key == "\t" and held & _SHIFT:
        return "\x1b[Z"
    if key in "\t\x1b\x7f\b":
        return alt + key
    if held & _CONTROL:
        letter = key.isascii() and key.isalpha()
        return alt + (chr(ord(key) & 31) if letter else _CONTROLS.get(key, ""))
    return alt + (text or ((shifted or key.upper()) if held & _SHIFT else key))
