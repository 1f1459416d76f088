"""Prints when a meeting ends."""

from planner.calendar import end_of

print(end_of(540, "90m"))
