"""The report `outputs`: the outputs of a GitHub step, which later steps read as `steps.ID.outputs.result`."""

from __future__ import annotations

import json
import os
from typing import Any

from agent_cli.reports.collect import RunRecord

_FINE = ("done", "degraded", "denied")
# All outputs of a job may have 1 MiB, and a variable of a later step 128 KiB.
_LONGEST = 100_000


def outputs_report(record: RunRecord) -> str:
    """Return `name<<END` blocks: result, session, cost, outcome and the names that other actions use for them."""
    result = record.result
    text = str(result.get("result") or "")
    answer = result.get("structured_output")
    fields: dict[str, Any] = {
        "result": text,
        "final-message": text,
        "session": result.get("session_id", ""),
        "session_id": result.get("session_id", ""),
        "cost": f"{result.get('total_cost_usd') or 0:.4f}" if result.get("cost_is_reliable") else "",
        "outcome": result.get("outcome", ""),
        "conclusion": "success" if result.get("outcome") in _FINE else "failure",
        "structured_output": json.dumps(answer) if answer is not None else "",
        "findings": str(len(record.findings)),
    }
    return "".join(_block(name, str(value)) for name, value in fields.items())


def _block(name: str, value: str) -> str:
    """Return an output. The end mark is random, so that no text of a model can end it and set another output."""
    mark = f"END-{os.urandom(12).hex()}"
    shown = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}\n(cut here)"
    return f"{name}<<{mark}\n{shown}\n{mark}\n"
