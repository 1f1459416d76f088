"""`--report FORMAT:FILE` with the real program."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.program import agent
from tests.support.scripts import bash, call, script

FAILING = "python3 -m unittest nothing_of_this_name"


def replies() -> list[dict[str, object]]:
    return [
        {"calls": [call("Write", file_path="b.txt", content="b|c\n"), call("Bash", command=FAILING)]},
        {"text": "It fails.\n::error::no"},
        {"text": "It fails.\n::error::no"},
        {"text": "It fails.\n::error::no"},
    ]


def test_every_report_of_a_run(work: Path) -> None:
    model = script(work.parent / "s.toml", replies())
    out = work.parent
    formats = ("junit", "sarif", "codequality", "json", "annotations")
    args = [word for name in formats for word in ("--report", f"{name}:{out / name}")]
    env = {"GITHUB_STEP_SUMMARY": str(out / "summary"), "GITHUB_OUTPUT": str(out / "outputs")}
    (out / "summary").write_text("before\n")
    args += ["--report", "summary", "--report", "outputs"]
    done = agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "--allowedTools", "Bash", *args, "go"],
                 work, env)  # fmt: skip
    assert done.returncode == 0, done.stderr
    suites = ElementTree.fromstring((out / "junit").read_text())
    assert {s.get("name"): (s.get("tests"), s.get("failures")) for s in suites} == {
        "agent.run": ("1", "0"), "agent.checks": ("1", "1"), "agent.steps": ("2", "0"),
    }  # fmt: skip
    failure = suites.find(".//failure")
    assert failure is not None and "nothing_of_this_name" in (failure.text or "")
    sarif = json.loads((out / "sarif").read_text())
    assert (sarif["version"], sarif["runs"][0]["results"]) == ("2.1.0", [])
    assert json.loads((out / "codequality").read_text()) == []
    assert json.loads((out / "json").read_text())["result"] == "It fails.\n::error::no"
    assert (out / "annotations").read_text().startswith("::error title=A check failed::`python3 -m unittest")
    summary = (out / "summary").read_text()
    assert summary.startswith("before\n## ✅ agent\n") and "| `b.txt` | +1 −0 |" in summary
    outputs = (out / "outputs").read_text()
    assert "conclusion<<END-" in outputs and "\nIt fails.\n::error::no\nEND-" in outputs


@pytest.mark.parametrize("spec", ["annotations", "annotations:-"])
def test_annotations_go_to_standard_error_and_name_a_failure(work: Path, spec: str) -> None:
    model = script(work.parent / "s.toml", [{"error": {"kind": "auth", "message": "100% wrong\nkey"}}])
    done = agent(["-p", "--model", model, "--report", spec, "go"], work)
    assert (done.returncode, done.stdout) == (1, "") and not (work / "-").exists()
    assert "::error title=agent%3A failed::" in done.stderr and "100%25 wrong" in done.stderr


def test_secrets_of_the_environment_are_in_no_report(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("echo x"), {"text": "It is hunter2hunter2."}])
    file = work.parent / "r.md"
    env = {"MY_API_KEY": "hunter2hunter2"}
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--report", f"summary:{file}", "go"], work, env)
    assert done.returncode == 0, done.stderr
    assert "It is [redacted]." in file.read_text()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("html:x", "the formats are summary"),
        ("junit", "name the file"),
        ("junit:", "name the file"),
        ("summary", "sets GITHUB_STEP_SUMMARY"),
        ("junit:no/such/folder/x", "does not exist"),
        ("junit:.", "is a folder"),
        ("junit:-", "standard output has the answer"),
    ],
)
def test_a_report_that_cannot_be_written_ends_the_run_before_it_starts(work: Path, spec: str, words: str) -> None:
    model = script(work.parent / "s.toml", [{"text": "Never."}])
    done = agent(["-p", "--model", model, "--report", spec, "go"], work)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr


def test_a_report_without_print_is_refused(work: Path) -> None:
    done = agent(["--report", "junit:x.xml", "go"], work)
    assert done.returncode == 2 and "add -p" in done.stderr
