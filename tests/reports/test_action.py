"""action.yml and the examples, run as GitHub and GitLab run them: with their files and variables."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.action_job import ACTION, STEPS, Job
from tests.support.fork_server import ROOT
from tests.support.program import clean_env
from tests.support.repositories import git
from tests.support.scripts import call, script


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q", "-b", "main", ".")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_a_prompt_runs_and_sets_the_outputs(repository: Path, tmp_path: Path) -> None:
    job = Job(tmp_path / "job", repository, {}, "workflow_dispatch")
    edit = call("Write", file_path="n.txt", content="n\n")
    model = script(tmp_path / "s.toml", [{"calls": [edit]}, {"text": "Done.\n::set-output name=x::y"}])
    done = job.run(prompt="go", sandbox="workspace-write", claude_args=f"--model '{model}' # comment")
    assert done.returncode == 0, done.stderr + done.stdout
    outputs = job.outputs()
    assert outputs["result"] == outputs["final-message"] == "Done.\n::set-output name=x::y"
    assert (outputs["conclusion"], outputs["outcome"], outputs["cost"]) == ("success", "done", "0.0000")
    assert outputs["session"] == json.loads(Path(outputs["execution_file"]).read_text())["session_id"]
    assert (repository / "n.txt").read_text() == "n\n"
    (repository / "n.txt").unlink()
    git(repository, "apply", outputs["patch"])
    assert (repository / "n.txt").exists() and "## ✅ agent" in (job.base / "summary").read_text()
    mark = re.search(r"^::stop-commands::(\w+)$", done.stdout, re.M)
    assert mark and done.stdout.index("::set-output") < done.stdout.index(f"::{mark[1]}::")
    declared = {re.search(r"outputs\.([\w-]+)", about["value"])[1] for about in ACTION["outputs"].values()}  # type: ignore[index]
    assert declared - outputs.keys() == {"comments"}


@pytest.mark.parametrize("how", ["split", "damaged", "borrowed", "missing", "subfolder"])
def test_the_patch_needs_nothing_of_the_repository_but_its_files(repository: Path, tmp_path: Path, how: str) -> None:
    (repository / "sub").mkdir()
    if how == "split":
        git(repository, "update-index", "--split-index")
    elif how == "damaged":
        (repository / ".git/index").write_bytes(b"DIRC" + os.urandom(90))
    elif how == "borrowed":  # objects of another folder are not used
        (repository / ".git/objects").rename(tmp_path / "objects")
        (repository / ".git/objects").symlink_to(tmp_path / "objects")
    elif how == "missing":
        shutil.rmtree(repository / ".git")
    job = Job(tmp_path / "job", repository, {}, "push")
    edit = call("Edit", file_path=str(repository / "a.txt"), old_string="hello world", new_string="hello you")
    read = call("Read", file_path=str(repository / "a.txt"))
    model = script(tmp_path / "s.toml", [{"calls": [read]}, {"calls": [edit]}, {"text": "Done."}])
    folder = {"working-directory": str(repository / "sub")} if how == "subfolder" else {}
    done = job.run(prompt="go", model=model, permission_mode="acceptEdits", **folder)
    assert done.returncode == 0, done.stderr + done.stdout
    if how == "missing":
        assert "patch" not in job.outputs() and "::warning title=agent::" not in done.stdout
        return
    patch = Path(job.outputs()["patch"]).read_text()
    assert re.findall("^diff.*", patch, re.M) == ["diff --git a/a.txt b/a.txt"] and "+hello you" in patch


def test_without_permission_nothing_is_changed(repository: Path, tmp_path: Path) -> None:
    job = Job(tmp_path / "job", repository, {}, "push")
    edit = call("Write", file_path="n.txt", content="n\n")
    model = script(tmp_path / "s.toml", [{"calls": [edit]}, {"text": "Denied."}])
    done = job.run(prompt="go", model=model)
    assert done.returncode == 5 and not (repository / "n.txt").exists()
    assert "patch" not in job.outputs() and "::warning title=Denied%3A Write::" in done.stdout


def pull_request(head: str = "o/r", association: str = "NONE") -> dict[str, Any]:
    user = {"login": "ada"}
    return {"sender": {"login": "ada", "type": "User"},
            "pull_request": {"user": user, "author_association": association, "number": 3,
                             "head": {"sha": "0" * 40, "repo": {"full_name": head}},
                             "base": {"repo": {"full_name": "o/r"}}}}  # fmt: skip


def test_a_review_of_a_pull_request(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "-b", "work")
    (repository / "a.txt").write_text("hello you\n")
    git(repository, "commit", "-q", "-am", "change")
    finding = {"file": "a.txt", "line": 1, "severity": "high", "title": "Rude", "body": "why"}
    model = script(tmp_path / "s.toml", [{"calls": [call("StructuredOutput", summary="s", findings=[finding])]}])
    job = Job(tmp_path / "job", repository, pull_request(association="MEMBER"), "pull_request")
    job.env["GITHUB_BASE_REF"] = "main"
    done = job.run(review="true", model=model, fail_on="high", reports=f"sarif:{tmp_path / 'r.sarif'}")
    assert done.returncode == 7, done.stderr + done.stdout
    outputs = job.outputs()
    assert outputs["findings"] == "1" and (tmp_path / "r.sarif").exists()
    comments = json.loads(Path(outputs["comments"]).read_text())
    assert comments["comments"][0]["path"] == "a.txt" and comments["commit_id"] == "0" * 40
    assert "::error file=a.txt,title=high%3A Rude,line=1,endLine=1::why" in done.stdout


@contextmanager
def github(answer: str, status: int = 200) -> Iterator[str]:
    """GitHub's API, of which one address is there."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.path == "/repos/o/r/collaborators/ada/permission"
            good = good and self.headers["Authorization"] == "Bearer t"
            self.send_response(status if good else 404)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("permission", "code"), [("write", 0), ("admin", 0), ("read", 1), ("none", 1)])
def test_github_is_asked_who_may_write(repository: Path, tmp_path: Path, permission: str, code: int) -> None:
    job = Job(tmp_path / "job", repository, pull_request(association="MEMBER"), "pull_request")
    model = script(tmp_path / "s.toml", [{"text": "Ok."}])
    with github(json.dumps({"permission": permission})) as api:
        job.env["GITHUB_API_URL"] = api
        done = job.run(prompt="go", model=model, github_token="t")
    assert done.returncode == code, done.stderr
    assert ("has no write access" in done.stdout) == bool(code)


@pytest.mark.parametrize(("association", "code"), [("MEMBER", 0), ("NONE", 1)])
@pytest.mark.parametrize("answer", [("{}", 500), ("no json", 200), ('["admin"]', 200)])
def test_where_github_does_not_say_it_the_event_does(
    repository: Path, tmp_path: Path, answer: tuple[str, int], association: str, code: int
) -> None:
    job = Job(tmp_path / "job", repository, pull_request(association=association), "pull_request")
    model = script(tmp_path / "s.toml", [{"text": "Ok."}])
    with github(*answer) as api:
        job.env["GITHUB_API_URL"] = api
        done = job.run(prompt="go", model=model, github_token="t")
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("event", "inputs", "words"),
    [
        (pull_request(), {"prompt": "go"}, "ada has no write access"),
        (pull_request() | {"sender": {"login": "x[bot]", "type": "Bot"}}, {"prompt": "go"}, "is a bot"),
        (pull_request("evil/r"), {"prompt": "go", "allow-users": "ada", "trust": "true"}, "from a fork"),
        (pull_request(), {"allow-users": "*"}, "nothing to do"),
        (pull_request(), {"prompt": "go", "allow-users": "ada", "claude_args": "'"}, "claude_args cannot be read"),
        (pull_request(), {"prompt": "go", "allow-users": "ada", "sandbox": "danger-full-access"}, "is not offered"),
        (pull_request(), {"prompt_file": "none.md", "allow-users": "ada"}, "cannot be read"),
    ],
)
def test_what_is_refused(
    repository: Path, tmp_path: Path, event: dict[str, Any], inputs: dict[str, str], words: str
) -> None:
    done = Job(tmp_path / "job", repository, event, "issue_comment").run(**inputs)
    assert done.returncode == 1 and words in done.stdout and "::error title=agent::" in done.stdout


def test_the_install_step_refuses_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    env = {**os.environ, "AGENT_PYTHON": str(old), "RUNNER_TEMP": str(tmp_path), "AGENT_SOURCE": str(ROOT)}
    done = subprocess.run(["bash", "-c", STEPS["Install agent"]["run"]], env=env, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 1 and "Python 3.11 or newer" in done.stdout


def test_no_step_puts_an_expression_into_a_shell() -> None:
    """What anyone wrote into a title or a comment would run there."""
    files = [ROOT / "action.yml", *(ROOT / "examples/ci").glob("*.yml")]
    runs = [run for file in files for run in _runs(yaml.safe_load(file.read_text("utf-8")))]
    assert len(runs) >= 3 and not [run for run in runs if "${{" in run]
    assert not [f for f in files if "pull_request_target:" in f.read_text("utf-8")]


def _runs(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        yield from (v for k, v in data.items() if k == "run" and isinstance(v, str))
        for value in data.values():
            yield from _runs(value)
    elif isinstance(data, list):
        for value in data:
            yield from _runs(value)


def test_the_examples_use_inputs_and_outputs_that_exist() -> None:
    for file in (ROOT / "examples/ci").glob("github-*.yml"):
        text = file.read_text("utf-8")
        for job in yaml.safe_load(text)["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("OWNER/agent@"):
                    assert step["with"].keys() <= ACTION["inputs"].keys()
        assert set(re.findall(r"steps\.(?:review|agent)\.outputs\.([\w-]+)", text)) <= ACTION["outputs"].keys()


@pytest.mark.skipif(
    shutil.which("actionlint") is None, reason="THE WORKFLOWS WERE NOT LINTED: there is no actionlint command"
)
def test_the_examples_and_our_workflows_pass_actionlint() -> None:
    found = [*(ROOT / "examples/ci").glob("github-*.yml"), *(ROOT / ".github/workflows").glob("*.yml")]
    files = [str(file) for file in found]
    done = subprocess.run(["actionlint", "-shellcheck=", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _shell(name: str, root: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    folder = root.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "agent").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agent_cli "$@"\n')
    (folder / "agent").chmod(0o755)
    full = clean_env(root.parent / "home", **env)
    full["PATH"] = f"{folder}:{full['PATH']}"
    return subprocess.run(["sh", str(ROOT / "examples/ci" / name), *args], cwd=root, env=full, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)  # fmt: skip


def test_the_review_script_in_a_merge_request_of_gitlab(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "work")
    (repository / "a.txt").write_text("hello you\n")
    git(repository, "commit", "-q", "-am", "change")
    finding = {"file": "a.txt", "line": 1, "severity": "high", "title": "Rude", "body": "why"}
    model = script(
        repository.parent / "s.toml", [{"calls": [call("StructuredOutput", summary="s", findings=[finding])]}]
    )
    env = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI": "true", "GITLAB_CI": "true", "MODEL": model}
    done = _shell("review.sh", repository, **env)
    assert done.returncode == 7 and "high or worse" in done.stderr, done.stderr
    assert json.loads((repository / "review.json").read_text())[0]["location"]["path"] == "a.txt"
    assert _shell("review.sh", repository, **env, FAIL_ON="critical").returncode == 0


def test_the_patch_script_tries_a_busy_provider_again(repository: Path) -> None:
    busy = {"error": {"kind": "overloaded", "message": "busy", "retryable": True}}
    model = script(repository.parent / "s.toml", [busy])
    done = _shell("patch.sh", repository, str(repository.parent / "p"), "go", MODEL=model, WAIT="0")
    assert done.returncode == 75 and done.stderr.count("busy") == 2, done.stderr
    edit = call("Write", file_path="n.txt", content="n\n")
    model = script(repository.parent / "s.toml", [{"calls": [edit]}, {"text": "Done."}])
    done = _shell("patch.sh", repository, str(repository.parent / "p"), "go", MODEL=model)
    assert done.returncode == 0, done.stderr
    assert "+++ b/n.txt" in (repository.parent / "p").read_text()
