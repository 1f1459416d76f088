"""All cases of the corpus."""

from __future__ import annotations

from tests.policy.corpus import (
    Case,
    attacks,
    builders,
    daily,
    denied,
    everyday,
    expansion,
    gits,
    later,
    looking,
    loopholes,
    openings,
    programs,
    readers,
    redirects,
    rules,
    targets,
    text,
    wrappers,
)

TABLES = (
    attacks,
    denied,
    text,
    expansion,
    programs,
    redirects,
    wrappers,
    readers,
    gits,
    later,
    looking,
    rules,
    targets,
    daily,
    everyday,
    loopholes,
    openings,
    builders,
)
CASES: list[Case] = [case for table in TABLES for case in table.CASES]
