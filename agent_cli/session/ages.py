"""How old and how large a session is, in few characters."""

from __future__ import annotations

from datetime import datetime


def age(time: str, now: datetime) -> str:
    """How long ago a record's time was, in one unit: "5m", "3h", "12d"; "?" for a time that cannot be read."""
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError):
        return "?"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def size(count: int) -> str:
    """Bytes in one unit: "812B", "12K", "3.4M"."""
    if count < 1_000:
        return f"{count}B"
    if count < 999_500:
        return f"{count / 1_000:.0f}K"
    return f"{count / 1e6:.1f}M" if count < 99_950_000 else f"{count / 1e6:.0f}M"
