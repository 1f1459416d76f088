"""Durations as text; planner.text.units has the other direction, parse_duration."""


def show_duration(minutes):
    """Return a duration as text, which parse_duration reads back."""
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
