"""Whether the words of a reading program do no more than read: its script, filter or operands.

Each says why not, or nothing.
"""

from __future__ import annotations

import re

from agent_cli.permission.effects_own import awk_acts
from agent_cli.permission.option_words import ParsedArguments


def sed_check(read: ParsedArguments) -> str:
    names = [name for name, _ in read.options]
    scripts = [value for name, value in read.options if name in ("-e", "--expression")] or list(read.operands[:1])
    address = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
    one = rf"{address}(?:,\+?{address})?!?p|\d+q|\$?="
    if not {"-n", "--quiet", "--silent"} & set(names):
        return "sed without -n"
    return "" if all(re.fullmatch(rf"(?:{one})(?:;(?:{one}))*", s) for s in scripts) else "a sed script"


def date_check(read: ParsedArguments) -> str:
    return "" if all(o.startswith("+") for o in read.operands) else "setting the date"


def awk_check(read: ParsedArguments) -> str:
    return "an awk script" if read.operands and (awk_acts(read.operands[0]) or "ENVIRON" in read.operands[0]) else ""


def jq_check(read: ParsedArguments) -> str:
    named = re.search(r"\b(?:import|include|modulemeta|env|ENV|input_filename)\b", "".join(read.operands[:1]))
    return f"the filter's {named[0]}" if named else ""


def no_lists_check(read: ParsedArguments) -> str:
    return "a list of options" if any(o.startswith("@") for o in read.operands) else ""


def ps_check(read: ParsedArguments) -> str:
    """Processes with their arguments, but not with their variables."""
    odd = any(not re.fullmatch(r"[auxw]{1,6}", o) for o in read.operands) or any("env" in v for _, v in read.options)
    return "ps with other words than aux" if odd else ""
