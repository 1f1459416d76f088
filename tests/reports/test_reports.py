"""`--report FORMAT:FILE` with the real program."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.program import agent
from tests.support.scripts import bash, call, script

TESTS = "python3 -m unittest"
FAILING = f"{TESTS} nothing_of_this_name"


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


def test_reports_have_the_steps_of_the_plan_with_their_evidence(work: Path) -> None:
    def todo(*states: str) -> dict[str, object]:
        return call("TodoWrite", todos=[{"content": f"step {n}", "status": s} for n, s in enumerate(states, 1)])

    (work / "test_a.py").write_text("import unittest\nclass T(unittest.TestCase):\n  def test_x(self): pass\n")
    steps = [
        {"calls": [todo("in_progress", "pending", "pending")]},
        {"calls": [call("Write", file_path="hunter2hunter2.py", content="x\n"), *bash(f"{TESTS} test_a")["calls"]]},
        {"calls": [todo("completed", "in_progress", "pending")]},
        {"calls": [call("Write", file_path="README.md", content="x\n"), *bash(FAILING)["calls"]]},
        {"calls": [todo("completed", "completed", "in_progress")]},
        bash("echo x > c.py; echo pytest"),
        {"calls": [todo("completed", "completed", "completed")]},
        *[{"text": "Two are done; the test of the second failed."}] * 3,
    ]
    model, out = script(work.parent / "s.toml", steps), work.parent
    args = [
        word for name in ("junit", "json", "annotations", "summary") for word in ("--report", f"{name}:{out / name}")
    ]
    flags = ["--permission-mode", "bypassPermissions", *args]
    done = agent(["-p", "--trust", "--model", model, *flags, "go"], work, {"MY_API_KEY": "hunter2hunter2"})
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "json").read_text())["record"]
    found = [(step["text"], step["status"], step["verdict"]) for step in record["plans"][0]["steps"]]
    assert found == [
        ("step 1", "completed", "stale"), ("step 2", "completed", "failed"), ("step 3", "completed", "unchecked"),
    ]  # fmt: skip
    (first, second, third) = record["plans"][0]["steps"]
    assert first["evidence"][0]["after"] == "[redacted].py" and first["evidence"][0]["stale"] == "c.py"
    assert (second["evidence"][0]["command"], second["evidence"][0]["code"]) == (FAILING, 1)
    # `echo pytest` is no test.
    assert [(e["check"], e["outcome"]) for e in third["evidence"]] == []
    assert third["files"] == [{"path": "c.py", "added": 1, "removed": 0, "created": True, "deleted": False}]
    assert record["unchecked"] == ["c.py"]
    suite = ElementTree.fromstring((out / "junit").read_text()).find("testsuite[@name='agent.plan']")
    assert suite is not None and [[child.tag for child in case] for case in suite] == [
        ["skipped"],
        ["failure"],
        ["skipped"],
    ]
    assert "::notice title=Not checked after the last change::c.py" in (out / "annotations").read_text()
    summary = (out / "summary").read_text()
    assert "### Plan\n" in summary and "| completed | step 3 | changed and not checked |" in summary
    assert "hunter2" not in "".join((out / name).read_text() for name in ("junit", "json", "annotations", "summary"))


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
