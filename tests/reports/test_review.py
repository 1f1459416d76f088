"""`agent review` with the real program on real repositories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extras.reports.findings import DiffLines
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import call, script


@pytest.fixture
def branch(root: Path) -> Path:
    """A branch with one commit on top of main, and nothing uncommitted."""
    git(root, "init", "-q", "-b", "main", ".")
    (root / "b.txt").write_text("".join(f"{n}\n" for n in range(1, 41)))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    git(root, "checkout", "-q", "-b", "work")
    (root / "a.txt").write_text("hello world\nsecond\n")
    (root / "b.txt").write_text("".join(f"{n}\n" for n in range(1, 41) if n != 20))
    git(root, "commit", "-q", "-am", "change")
    return root


FINDINGS = [
    {"file": "a.txt", "line": 2, "severity": "high", "title": "Wrong word", "body": "when: always",
     "suggestion": "two"},
    {"file": "./b.txt", "line": 20, "side": "old", "severity": "medium", "title": "Line lost", "body": "b"},
    {"file": "b.txt", "line": 1, "severity": "critical", "title": "Elsewhere", "body": "b"},
    {"file": "c.txt", "line": 1, "severity": "critical", "title": "No such file", "body": "b"},
]  # fmt: skip


def review(root: Path, *args: str, findings: Any = FINDINGS, expect: str = "", **env: str) -> Any:
    answer = call("StructuredOutput", summary="A change.", findings=findings)
    model = script(root.parent / "s.toml", [{"calls": [answer], "expect": expect}])
    return agent(["review", "--model", model, *args], root, env)


def test_findings_are_checked_against_the_diff(branch: Path) -> None:
    comments = branch.parent / "c.json"
    done = review(branch, "--base", "main", "--output-format", "json", "--comments", str(comments), expect="+second")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(f["file"], f["line"], f["side"]) for f in found["findings"]] == [("a.txt", 2, "new"), ("b.txt", 20, "old")]
    assert [f["title"] for f in found["outside_diff"]] == ["Elsewhere"]
    assert [f["title"] for f in found["dropped"]] == ["No such file"]
    assert "1 finding is dropped: not in a file of the diff (c.txt:1)" in done.stderr
    sent = json.loads(comments.read_text())
    assert (sent["event"], sent["commit_id"]) == ("COMMENT", git(branch, "rev-parse", "HEAD").strip())
    first, second = sent["comments"]
    assert (first["path"], first["line"], first["side"]) == ("a.txt", 2, "RIGHT")
    assert first["body"].endswith("```suggestion\ntwo\n```")
    assert (second["line"], second["side"]) == (20, "LEFT")


@pytest.mark.parametrize(("severity", "code"), [("critical", 0), ("high", 7), ("low", 7)])
def test_fail_on_counts_what_is_on_the_diff(branch: Path, severity: str, code: int) -> None:
    done = review(branch, "--base", "main", "--fail-on", severity)
    assert done.returncode == code, done.stderr
    assert "high: a.txt:2: Wrong word" in done.stdout


def test_the_reports_have_the_findings(branch: Path) -> None:
    out = branch.parent
    formats = ("sarif", "codequality", "annotations", "summary", "junit")
    args = [word for name in formats for word in ("--report", f"{name}:{out / name}")]
    assert review(branch, "--base", "main", *args).returncode == 0
    results = json.loads((out / "sarif").read_text())["runs"][0]["results"]
    assert [r["level"] for r in results] == ["error", "warning", "error"]
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "endLine": 2}
    quality = json.loads((out / "codequality").read_text())
    assert (quality[0]["severity"], quality[0]["location"]) == (
        "critical",
        {"path": "a.txt", "lines": {"begin": 2, "end": 2}},
    )
    assert len({issue["fingerprint"] for issue in quality}) == 3
    lines = (out / "annotations").read_text().splitlines()
    assert lines[0] == "::error file=a.txt,title=high%3A Wrong word,line=2,endLine=2::when: always"
    assert "- **high** `a.txt:2`: Wrong word" in (out / "summary").read_text()
    assert 'failures="1"' in (out / "junit").read_text()


def test_uncommitted_work_and_new_files_are_reviewed(branch: Path) -> None:
    (branch / "new.txt").write_text("brand new\n")
    before = git(branch, "status", "--porcelain")
    done = review(branch, findings=[{**FINDINGS[0], "file": "new.txt", "line": 1}], expect="+brand new")
    assert done.returncode == 0 and "uncommitted changes" in done.stdout, done.stderr
    assert git(branch, "status", "--porcelain") == before
    done = review(branch, "--base", "main", findings=[], expect="+brand new")
    assert done.returncode == 0 and "Uncommitted changes are also reviewed" in done.stderr


def test_a_commit_a_range_and_the_target_branch_of_ci(branch: Path) -> None:
    (branch / "a.txt").write_text("third\n")
    git(branch, "commit", "-q", "-am", "more")
    assert "commit " in review(branch, "--commit", "HEAD~1", findings=[], expect="+second").stdout
    assert "main..work~1" in review(branch, "--range", "main..work~1", findings=[], expect="+second").stdout
    done = review(branch, findings=[], expect="+third", CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
    assert "main...HEAD" in done.stdout, done.stderr
    assert "main...HEAD" in review(branch, findings=[], expect="+third").stdout


def test_nothing_to_review_asks_no_model_and_writes_reports(branch: Path) -> None:
    file = branch.parent / "s.sarif"
    done = review(branch, "--base", "work", "--report", f"sarif:{file}", expect="never")
    assert done.returncode == 0 and "There is nothing to review" in done.stdout, done.stderr
    assert json.loads(file.read_text())["runs"][0]["results"] == []


def test_a_shallow_checkout_is_reported_what_to_fetch(branch: Path) -> None:
    clone = branch.parent / "clone"
    git(branch.parent, "clone", "-q", "--depth", "1", "--branch", "work", f"file://{branch}", str(clone))
    done = review(clone, "--base", "main")
    assert done.returncode == 2 and "git fetch origin main:refs/remotes/origin/main" in done.stderr
    git(clone, "fetch", "-q", "--depth", "1", "origin", "main:refs/remotes/origin/main")
    done = review(clone, "--base", "main")
    assert done.returncode == 2 and "git fetch --unshallow origin" in done.stderr
    git(clone, "fetch", "-q", "--unshallow", "origin")
    assert review(clone, "--base", "main", expect="+second").returncode == 0


def test_a_checkout_with_the_credentials_of_a_job_is_reviewed(branch: Path) -> None:
    git(branch, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    assert review(branch, "--base", "main").returncode == 0
    git(branch, "config", "diff.external", "touch ran")
    done = review(branch, "--base", "main")
    assert done.returncode == 2 and "diff.external" in done.stderr and not (branch / "ran").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--base", "nope"), "nope is not in this repository"),
        (("--base", "--upload-pack=x"), "is not in this repository"),
        (("--range", "main"), "write it as A..B"),
        (("--base", "main", "--uncommitted"), "Name one thing"),
        (("--base", "main", "--fail-on", "bad"), "bad is not one of critical, high, medium, low."),
    ],
)
def test_mistakes_are_a_sentence(branch: Path, args: tuple[str, ...], words: str) -> None:
    done = review(branch, *args)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_an_answer_without_findings_fails(branch: Path) -> None:
    model = script(branch.parent / "s.toml", [{"text": "Looks good."}] * 4)
    done = agent(["review", "--model", model, "--base", "main"], branch)
    assert (done.returncode, done.stdout) == (1, "") and "gave no findings" in done.stderr


def test_a_refused_key_says_where_to_look(branch: Path) -> None:
    with ModelServer([Reply(status=401, error="no")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["review", "--model", "openai/m", "--base", "main"], branch, env)
    assert done.returncode == 1
    assert "refused the API key: no. To see which key is used" in done.stderr
    assert "agent doctor. To store another one: agent login\n" in done.stderr


def test_names_that_git_quotes_renames_and_lines_like_headers() -> None:
    diff = DiffLines(
        'diff --git "a/\\303\\244 b.txt" "b/\\303\\244 b.txt"\nindex 1..2 100644\n'
        '--- "a/\\303\\244 b.txt"\n+++ "b/\\303\\244 b.txt"\n@@ -1,2 +1,2 @@\n--- a/x\n+++ b/x\n same\n'
        "diff --git a/old.txt b/new.txt\nsimilarity index 90%\nrename from old.txt\nrename to new.txt\n"
        "--- a/old.txt\n+++ b/new.txt\n@@ -7 +7,3 @@ def f\n-a\n+b\n+c\n+d\n"
        "diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n"
    )
    assert list(diff.files) == ["ä b.txt", "new.txt", "bin"]
    assert diff.hunk("ä b.txt", 2) == range(1, 3)
    assert diff.hunk("new.txt", 9) == range(7, 10) and diff.hunk("new.txt", 10) is None
    assert diff.hunk("new.txt", 7, old=True) == range(7, 8)
    assert diff.find_file("b/new.txt") == "new.txt" and diff.find_file("old.txt") is None
