"""All cases of the corpus."""

from __future__ import annotations

from tests.permission.corpus import Case, everyday, expansion, gits, readers, redirects, rules, text, wrappers

TABLES = (text, expansion, redirects, wrappers, readers, gits, rules, everyday)
CASES: list[Case] = [case for table in TABLES for case in table.CASES]
