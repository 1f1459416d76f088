"""Each command that README and the pages show is run in a scratch repository, or has a reason here why it is not."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ROOT, program_command
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import clean_env

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Commands, by how they begin, that are not run, and why.
NOT_RUN = {
    r"make ": "each has a job in CI, and `make test` runs this test",
    r"(uv|pipx|pip|pip3|sudo|docker|ollama pull|dask) ": "it installs something, or starts a service",
    r"(ssh|tailscale) ": "it needs another machine",
    r"curl ": "tests/server sends these requests",
    r"(agent serve( --.*)?|cd ~/src/app)$": "it runs until it is stopped, and tests/server starts it",
    r"\.venv/bin/": "tests/test_guide.py follows this page",
    r"python -m benchmarks": "it takes minutes",
    r"agent eval ": "tests/evaluation runs these tasks",
    r"agent batch .*--scheduler": "it needs a cluster, and tests/batch has one",
    r"agent (login|logout)\b": "tests log in at servers of their own",
    r"agent mcp (login|logout) ": "it needs a server with a login, and tests/mcp has one",
    r"agent mcp test git": "it fetches a server, and tests/mcp starts that one",
    r"agent plugin (marketplace|update|remove|add hookify)": "it fetches a repository, and tests/knowledge has one",
    r"agent (-p )?-r @|agent sessions import gemini": "tests/takeover has sessions of other programs",
    r"git -C \.\./shop apply": "it applies the patch of the example above it",
    r"git notes --ref=agent": "it needs a remote, and tests/git has one",
    r"cat tasks.jsonl": "it shows the file of the example",
}
# Commands that end with another code here, and why.
ENDS_WITH = {
    "agent -r": (2, "there is no terminal to choose in"),
    'agent -p --stage "rename parse to read"': (3, "the changes wait"),
    'agent -p --on-ask suspend "Fix the test"': (3, "the model wants to run a command"),
    "agent undo --file src/app.py": (2, "nobody can answer"),
    "agent undo --force": (2, "nobody can answer"),
    "agent undo --redo": (2, "nobody can answer"),
    "agent undo": (2, "nobody can answer"),
    "agent record note HEAD~1": (2, "nobody can answer"),
    "agent record note": (2, "the session made no commit"),
    "agent why slug.py:2": (1, "the commit has no note"),
    "agent sessions rm 54ecdad3": (2, "nobody can answer"),
    "agent plugin add ./my-plugin": (2, "nobody can answer"),
    "agent permissions check 'git push'": (None, "the decision is the exit code"),
    "agent hooks test PreToolUse": (None, "no hook is set up"),
    "agent doctor": (None, "it reports what this machine lacks"),
    "agent-at-hand doctor": (None, "as before"),
}
# What the model writes, after how many results, at which prompt: for `--patch`, and in the turns of the sessions below.
EDITS = ((0, "ename parse to read", "read.py"), (0, "edit one", "src/app.py"), (1, "edit two", "src/two.py"))
SESSIONS = {"54ecdad3": "login form", "3f2a": "parser"}


def fences() -> Iterator[tuple[str, str, str]]:
    """Each block of shell commands with its page and language; not files that begin with the name of a program."""
    for path in PAGES:
        for found in re.finditer(r"^```(console|sh)\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            if not found[2].startswith("#!"):
                yield path.name, found[1], found[2]


def commands(language: str, text: str) -> list[str]:
    """The commands of a block: after a prompt `$ `, if it has one; a script is one command."""
    if language == "sh" and not all(line.startswith(("agent", "git apply", "export ")) for line in text.splitlines()):
        return [text]
    joined = text.replace("\\\n", " ")
    if "$ " in joined.splitlines()[0][:2]:
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    return joined.splitlines()


def reason(command: str) -> str | None:
    """Why a command is not run; None if it is."""
    return next((why for start, why in NOT_RUN.items() if re.match(start, command.partition(" #")[0].rstrip())), None)


def expected(command: str) -> int | None:
    """The exit code that a command should have; None for any but those of a crash."""
    words = command.partition(" #")[0].rstrip()
    exact = [code for start, (code, _) in ENDS_WITH.items() if words == start]
    return exact[0] if exact else next((c for s, (c, _) in ENDS_WITH.items() if c is None and words.startswith(s)), 0)


def answer(received: Received) -> Reply:
    """What the model answers: data that fits, if data is asked for; a command for a test; else a word."""
    for tool in received.body.get("tools", ()):
        schema = tool.get("input_schema") or tool.get("parameters") or tool.get("function", {}).get("parameters", {})
        if (tool.get("name") or tool.get("function", {}).get("name")) == "StructuredOutput":
            return Reply(calls=(Call("StructuredOutput", filled(schema)),))
    text = str(received.body)
    results = text.count("function_call_output")
    for before, prompt, name in EDITS:
        if prompt in text and results == before:
            return Reply(calls=(Call("Write", {"file_path": name, "content": "a = 1\n" * 50}),))
    if "Fix the test" in text and not results:
        return Reply(calls=(Call("Bash", {"command": "python3 -m unittest -q"}),))
    return Reply(text="rate limit")


def filled(schema: dict[str, Any]) -> Any:
    """The plainest value of a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: filled(schema["properties"][name]) for name in schema.get("required", ())}
    return {"array": [], "boolean": False, "integer": 0, "number": 0}.get(str(kind), "1.4.2")


def scratch(folder: Path, env: dict[str, str]) -> Path:
    """A repository with what the examples speak of, on a branch with one commit more than main."""
    work = folder / "work"
    for name, text in {
        "slug.py": "def slug(text):\n    return text.lower()\n",
        "tests/test_slug.py": "import unittest\n",
        "task.txt": "Say hello.\n",
        ".gitignore": "*.jsonl\n*.xml\n*.patch\n*.sarif\n*.html\n*.md\n*.json\n*.png\nmy-plugin/\n",
        "my-plugin/commands/sweep.md": "Tidy up.\n",
        "tasks.jsonl": '{"id": "slug", "prompt": "Say hello"}\n',
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    for name in ("screenshot", "before", "after"):
        (work / f"{name}.png").write_bytes((ROOT / "docs/images/web-phone.png").read_bytes())
    run = "git init -qb main && git add -A && git commit -qm One && git tag v1.2 && git checkout -qb topic"
    more = "echo b=2 >> slug.py && git commit -qam Two && git tag v1.3 && echo c=3 >> slug.py && git add slug.py"
    subprocess.run(["bash", "-ec", f"{run} && {more}"], cwd=work, env=env, check=True, capture_output=True)
    return work


def prepare(text: str, folder: Path, work: Path, env: dict[str, str]) -> None:
    """Make the sessions and profiles that the commands name."""
    (folder / "home/.agentrc").write_text('[profiles.work]\neffort = "low"\n')
    ids = [name for name in SESSIONS if name in text]
    if not ids and re.search(r"agent (-c\b|show|undo|record|-w parser)", text):
        ids = ["54ecdad3"]
    for start in ids:
        identity = f"{start}{'0' * 8}"[:8] + "-0000-4000-8000-000000000000"
        lines = "".join(f'{{"type":"user","message":{{"role":"user","content":"edit {n}"}}}}\n' for n in ("one", "two"))
        name = ["--session-id", identity, "-n", SESSIONS[start], "--input-format", "stream-json"]
        mode = ["--permission-mode", "acceptEdits", "--output-format", "stream-json"]
        command = [str(folder / "bin/agent"), "-p", *mode, *name]
        done = subprocess.run(command, cwd=work, env=env, input=lines.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def programs(folder: Path, env: dict[str, str]) -> Path:
    """The folder with the programs of the pages."""
    folder.mkdir()
    # Completion is for the shell that started the program, which a fork does not have above it.
    agent = (
        f'#!/bin/sh\n[ "$1" = --install-completion ] && exec {shlex.quote(sys.executable)} -m agent_cli "$@"\n'
        f'exec {shlex.join(program_command(env))} "$@"\n'
    )
    for name, text in (("agent", agent), ("agent-at-hand", agent), ("ollama", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


BLOCKS = [fence for fence in fences() if any(reason(c) is None for c in commands(*fence[1:]))]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "language", "text"), BLOCKS, ids=[f"{p}-{t.split()[0:3]}" for p, _, t in BLOCKS])
def test_the_commands_of_a_page_run(page: str, language: str, text: str, tmp_path: Path) -> None:
    with ModelServer([answer], repeat=True) as server:
        env = clean_env(
            tmp_path / "home", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.openai_url, AGENT_MODEL="openai/gpt-5.5",
            OLLAMA_HOST=server.openai_url.removesuffix("/v1"), GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="a@example.org",
            GIT_COMMITTER_NAME="Ada", GIT_COMMITTER_EMAIL="a@example.org",
        )  # fmt: skip
        if "--report summary" in text:
            env["GITHUB_STEP_SUMMARY"] = str(tmp_path / "summary.md")
        env["PATH"] = f"{programs(tmp_path / 'bin', env)}:{env['PATH']}"
        work = scratch(tmp_path, env)
        prepare(text, tmp_path, work, env)
        run = [command for command in commands(language, text) if reason(command) is None]
        script = "".join(f"{command.rstrip()}\nprintf '%s\\n' $? >> ../codes\n" if language == "console" else
                         f"(\n{command}\n)\nprintf '%s\\n' $? >> ../codes\n" for command in run)  # fmt: skip
        done = subprocess.run(["bash", "-c", script], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    codes = [int(code) for code in (tmp_path / "codes").read_text().split()]
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert len(codes) == len(run), said
    for command, code in zip(run, codes, strict=True):
        wanted = expected(command)
        assert code == wanted or (wanted is None and code in (0, 1, 5)), (command, code, said)
    assert "Traceback" not in said


def test_every_reason_is_needed() -> None:
    every = [command for _, *fence in fences() for command in commands(*fence)]
    for start in NOT_RUN:
        assert any(re.match(start, command) for command in every), start
    for start in ENDS_WITH:
        assert any(command.startswith(start) for command in every), start
