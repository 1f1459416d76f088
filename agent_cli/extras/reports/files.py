"""`--report FORMAT:FILE`: parse the option and write the reports when the run ends; the outputs of a GitHub step."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import Event, UsageError
from agent_cli.extras.reports.collect import RunCollector, RunRecord
from agent_cli.extras.reports.formats import annotations_report, codequality_report, junit_report, sarif_report
from agent_cli.extras.reports.summary import summary_report
from agent_tools.record import Value

_SUCCESSES = ("done", "degraded", "denied")
# All outputs of a job together may have 1 MiB, and a variable of a later step 128 KiB.
_MAX_VALUE_CHARS = 100_000


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
        "conclusion": "success" if result.get("outcome") in _SUCCESSES else "failure",
        "structured_output": json.dumps(answer) if answer is not None else "",
        "findings": str(len(record.findings)),
    }
    return "".join(_block(name, str(value)) for name, value in fields.items())


def _block(name: str, value: str) -> str:
    """Return an output as a block. Its end mark is random, so that no text can end the block and set another output."""
    mark = f"END-{os.urandom(12).hex()}"
    shown = value if len(value) <= _MAX_VALUE_CHARS else f"{value[:_MAX_VALUE_CHARS]}\n(cut here)"
    return f"{name}<<{mark}\n{shown}\n{mark}\n"


def json_report(record: RunRecord) -> str:
    """Return the object of `--output-format json`, without secrets, and the completion record."""
    return json.dumps({**record.result, "record": record.completion}, indent=2) + "\n"


REPORTS: dict[str, Callable[[RunRecord], str]] = {
    "summary": summary_report,
    "annotations": annotations_report,
    "codequality": codequality_report,
    "junit": junit_report,
    "sarif": sarif_report,
    "json": json_report,
    "outputs": outputs_report,
}
# Variables with files that the CI system provides and several steps append to. It reads annotations on standard error.
_DEFAULT_FILES = {"summary": "GITHUB_STEP_SUMMARY", "outputs": "GITHUB_OUTPUT"}


class ReportFile(Value):
    """A report to write. file: "" for standard error. append: the CI system provides the file."""

    format: str
    file: str = ""
    append: bool = False


def parse_report(spec: str, env: Mapping[str, str]) -> ReportFile:
    """Parse `FORMAT:FILE`, or a format that needs no file. Raises UsageError."""
    name, colon, file = spec.partition(":")
    if name not in REPORTS:
        raise UsageError(f"--report {spec}: the formats are {', '.join(REPORTS)}, as in --report junit:report.xml.")
    variable = _DEFAULT_FILES.get(name, "")
    if not file and variable and not colon:
        if not env.get(variable):
            raise UsageError(f"--report {name} without a file is for GitHub, which sets {variable}: add :FILE.")
        return ReportFile(name, env[variable], append=True)
    if not file and (name != "annotations" or colon):
        raise UsageError(f"--report {spec}: name the file, as in --report {name}:FILE.")
    if not file or (file == "-" and name == "annotations"):
        return ReportFile(name)
    if file == "-":
        raise UsageError(f"--report {spec}: standard output has the answer; name a file, as in --report {name}:FILE.")
    check_target("--report", file)
    system = variable and os.path.abspath(file) == env.get(variable)  # noqa: PTH100
    return ReportFile(name, os.path.abspath(file), append=bool(system))  # noqa: PTH100


def check_target(flag: str, file: str) -> None:
    """Raise UsageError if a file cannot be written, before anything costs money."""
    path = Path(file)
    if path.is_dir():
        raise UsageError(f"{flag}: {file} is a folder.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{flag}: the folder of {file} does not exist.")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"{flag}: {file} cannot be written.")


class RunReports:
    """Collects a run and writes its reports: a listener. Call `finish` with the result of each turn, then `write`."""

    def __init__(self, specs: Sequence[str], env: Mapping[str, str], root: str) -> None:
        """Raise UsageError for a report that cannot be written."""
        self._files = [parse_report(spec, env) for spec in specs]
        self._collect = RunCollector(env, root)
        self._result: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        self._collect(event)

    def finish(self, result: dict[str, Any]) -> None:
        """Store the result of a turn, in place of that of the turn before."""
        self._result = result

    def record(self) -> RunRecord:
        """Return the record of the run so far."""
        return self._collect.record(self._result)

    def write(self, say: Callable[[str], None], record: RunRecord | None = None) -> bool:
        """Write the files; return False if one could not be written. record: written instead of the collected one."""
        if not self._result:
            return True
        record = record or self.record()
        ok = True
        for report in self._files:
            text = REPORTS[report.format](record)
            if not report.file:
                sys.stderr.write(text)
                sys.stderr.flush()
                continue
            try:
                write_text(report.file, text, append=report.append)
            except OSError as error:
                say(f"The report {report.format} was not written: {report.file}: {error.strerror or error}")
                ok = False
        return ok


def write_text(file: str, text: str, *, append: bool = False) -> None:
    """Write text to a file. Raises OSError."""
    with open(file, "a" if append else "w", encoding="utf-8", errors="replace") as target:
        target.write(text)
