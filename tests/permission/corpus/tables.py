"""All cases of the corpus."""

from __future__ import annotations

from tests.permission.corpus import (
    Case,
    daily,
    everyday,
    expansion,
    gits,
    readers,
    redirects,
    rules,
    targets,
    text,
    wrappers,
)

TABLES = (text, expansion, redirects, wrappers, readers, gits, rules, targets, daily, everyday)
CASES: list[Case] = [case for table in TABLES for case in table.CASES]
