"""The tools that ask a language server, in whole runs: found, decided once for all files, in parts, and undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import symbol_server
from tests.support.checkers import CheckerFolder
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

A, B = "package a\n\nfunc load() {} // load\nfunc other() { load() }\n", "package a\n\nfunc more() { load() }\n"
RENAME = {"file_path": "a.go", "line": 3, "symbol": "load", "new_name": "fetch"}
NAMES = ("Symbols", "Definition", "References", "RenameSymbol")


class Project:
    """A Go project with a server in PATH, which a rule allows."""

    def __init__(self, work: Path, checkers: CheckerFolder) -> None:
        self.work, self.checkers = work, checkers
        (work / "a.go").write_text(A)
        (work / "b.go").write_text(B)
        self.env = {"PATH": checkers.path, "AGENT_SANDBOX_MODE": "off"}

    def run(self, *replies: Reply, options: tuple[str, ...] = (), code: int = 0) -> list[list[dict[str, Any]]]:
        """The messages of each request."""
        with ModelServer([*replies, Reply(text="Done.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, **self.env}
            command = ["-p", "--model", "openai/x", "--allowedTools", "Bash(gopls)", *options, "--", "go"]
            done = agent(command, self.work, env, stdin="")
            assert done.returncode == code, done.stderr
            self.stderr = done.stderr
            return [body["messages"] for body in server.bodies]

    @property
    def texts(self) -> tuple[str, str]:
        return (self.work / "a.go").read_text(), (self.work / "b.go").read_text()


@pytest.fixture
def project(work: Path, home: Path) -> Iterator[Project]:
    checkers = CheckerFolder(home)
    checkers.add_server("gopls", "good", symbol_server)
    yield Project(work, checkers)
    checkers.close()


def use(name: str, arguments: dict[str, Any]) -> Reply:
    return Reply(calls=[Call("UseTool", {"tool": name, "arguments": arguments})])


def test_they_are_found_and_a_rename_is_one_change_that_undo_takes_back(project: Project) -> None:
    find = Reply(calls=[Call("ToolSearch", {"query": "select:RenameSymbol,References"})])
    place = {name: RENAME[name] for name in ("file_path", "line", "symbol")}
    accept = ("--permission-mode", "acceptEdits")
    asked = project.run(find, use("References", place), use("RenameSymbol", RENAME), options=accept)
    found, uses, done = (messages[-1]["content"] for messages in asked[1:4])
    assert "RenameSymbol\n" in found and '"new_name"' in found and "References\n" in found
    assert uses.splitlines()[0] == "3 places:" and "b.go:3: func more() { load() }" in uses
    assert done.startswith("Renamed load to fetch in 2 files:\na.go (+2 -2)\nb.go (+1 -1)")
    a, b = project.texts
    assert "func fetch() {} // load\nfunc other() { fetch() }" in a and "fetch()" in b
    undone = agent(["undo", "--yes"], project.work)
    assert undone.returncode == 0, undone.stderr
    assert project.texts == (A, B)


def test_they_add_at_most_300_bytes_to_the_first_request(project: Project) -> None:
    sizes = []
    for path in (project.env["PATH"], project.env["PATH"].partition(":")[2]):
        with ModelServer([Reply(text="Done.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, **project.env, "PATH": path}
            agent(["--plain", "--model", "openai/x", "--allowedTools", "Bash(gopls)"], project.work, env, stdin="hi\n")
        sizes.append(len(server.requests[0].raw))
        assert ("RenameSymbol" in server.requests[0].raw.decode()) == (len(sizes) == 1)
    assert 0 < sizes[0] - sizes[1] <= 300 and sizes[0] <= 18_000


def test_without_a_server_they_are_not_there(project: Project) -> None:
    project.env["PATH"] = "/usr/bin:/bin"
    asked = project.run(Reply(calls=[Call("ToolSearch", {"query": "select:RenameSymbol"})]))
    assert not any(name in str(asked[0]) for name in NAMES) and "No tool matches" in asked[1][-1]["content"]


@pytest.mark.parametrize("hunks", ["", "2"])
def test_one_question_shows_all_files_and_its_parts_can_be_taken(project: Project, hunks: str) -> None:
    project.run(use("RenameSymbol", RENAME), options=("--on-ask", "suspend"), code=3)
    assert project.texts == (A, B)
    waiting = agent(["pending"], project.work).stdout
    assert "call: Rename load to fetch in a.go, b.go" in waiting
    assert " (hunk 1)" in waiting and " (hunk 2)" in waiting and "+func fetch() {} // load" in waiting
    with ModelServer([Reply(text="Done.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, **project.env}
        done = agent(["approve", *(["--hunks", hunks] if hunks else [])], project.work, env)
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        result = server.bodies[0]["messages"][-1]["content"]
    a, b = project.texts
    assert ("fetch" in a, "fetch" in b) == (not hunks, True)
    assert ("The user took 1 of the 2 parts" in result) == bool(hunks)


def test_a_rule_for_one_of_the_files_decides_the_whole(project: Project) -> None:
    options = ("--permission-mode", "acceptEdits", "--disallowedTools", "Edit(b.go)")
    asked = project.run(use("RenameSymbol", RENAME), options=options)
    assert "denied" in asked[1][-1]["content"] and project.texts == (A, B)


def test_a_server_that_no_rule_allows_is_not_started_outside_the_sandbox(project: Project) -> None:
    with ModelServer([Reply(text="Done.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, **project.env}
        agent(["-p", "--model", "openai/x", "--", "go"], project.work, env, stdin="")
        assert not any(name in str(server.bodies[0]["tools"]) for name in NAMES)
    assert project.checkers.runs() == []
