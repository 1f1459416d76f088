"""Appointments."""

from planner.text.units import parse_duration


def end_of(start, duration):
    """Return when an appointment ends, in minutes."""
    return start + parse_duration(duration)
