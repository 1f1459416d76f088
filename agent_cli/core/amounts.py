"""Durations, counts and dollars as every output writes them."""

from __future__ import annotations


def short_count(number: int) -> str:
    """Format a count: 12, 1.2k, 34k, 1.2M."""
    if number < 1_000:
        return str(number)
    for unit, size in (("k", 1_000), ("M", 1_000_000)):
        if number < 999.5 * size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number / size:.0f}{unit}"
    return f"{number / 1e9:.1f}G"


def short_duration(seconds: float) -> str:
    """Format a duration: 0.4s, 7s, 42s, 3m 07s, 1h 02m."""
    if seconds < 9.95:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def dollars(cost: float) -> str:
    """Format a cost: $12.30, $0.02, $0.0031."""
    return f"${cost:.2f}" if cost >= 0.01 else f"${cost:.4f}"


def tokens_used(sent: int, received: int) -> str:
    """Format the tokens of model calls: 16k in, 400 out; "" for none."""
    return f"{short_count(sent)} in, {short_count(received)} out" if sent or received else ""
