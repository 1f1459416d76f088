"""The step of action.yml: check the user, turn the inputs into a command line, run it, set the outputs.

It accepts the inputs of the best known agent actions. By default the model may only read; the workflow lists what else
it may do. Users without write access and bots are refused, since their text would instruct a program that has a key.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.undo.git_store import objects_of
from agent_cli.undo.scanner import user_index
from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.urls import split_url
from agent_tools.process import hardening
from agent_tools.process.git_tree import NO_SUBMODULES, copy_index, store_tree
from agent_tools.process.guarded_git import GitError, GitRun, find_git, store_git

# Write access, by the association in GitHub's events and by the permission from its API.
_WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
_ROLES = ("admin", "write", "maintain")
# Events that need write access, or that GitHub itself causes.
_TRUSTED_EVENTS = ("push", "workflow_dispatch", "schedule", "repository_dispatch", "merge_group", "release")
_PLAIN_DIFF = (
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    NO_SUBMODULES,
)
_MAX_ANSWER_BYTES = 1 << 20


class ActionError(Exception):
    """The step cannot run; the message is for the log."""


def main() -> int:
    """Run the step; return its exit code."""
    # The model's commands must not read the inputs from this process.
    hardening.protect()
    try:
        inputs = {k: str(v) for k, v in json.loads(os.environ.get("INPUT_JSON") or "{}").items() if v not in (None, "")}
        event = _event(os.environ)
        check_actor(inputs, event, os.environ)
        return run_step(inputs, event, os.environ)
    except ActionError as error:
        sys.stdout.write(f"::error title=agent::{_data(str(error))}\n")
        return 1


def _event(env: Mapping[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(Path(env["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    except (KeyError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_actor(inputs: Mapping[str, str], event: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Raise ActionError if the user who caused the event may not give instructions."""
    if env.get("GITHUB_EVENT_NAME", "") in _TRUSTED_EVENTS:
        return
    sender = event.get("sender") or {}
    actor = str(sender.get("login") or env.get("GITHUB_ACTOR", ""))
    if sender.get("type") == "Bot" or actor.endswith("[bot]"):
        bots = _name_set(inputs, "allowed_bots", "allow-bot-users")
        if "*" in bots or actor.lower().removesuffix("[bot]") in {bot.removesuffix("[bot]") for bot in bots}:
            return
        raise ActionError(f"{actor} is a bot and may not run this: name it in allowed_bots.")
    users = _name_set(inputs, "allow-users", "allowed_non_write_users")
    if "*" in users or actor.lower() in users or _may_write(actor, inputs, event, env):
        return
    raise ActionError(f"{actor or 'The user'} has no write access and may not run this: see allow-users.")


def _name_set(inputs: Mapping[str, str], *keys: str) -> set[str]:
    return {name.strip().lower() for key in keys for name in inputs.get(key, "").split(",") if name.strip()}


def _may_write(actor: str, inputs: Mapping[str, str], event: Mapping[str, Any], env: Mapping[str, str]) -> bool:
    token, repository = inputs.get("github_token", ""), env.get("GITHUB_REPOSITORY", "")
    if token and repository and actor:
        api = env.get("GITHUB_API_URL", "https://api.github.com")
        url = f"{api}/repos/{repository}/collaborators/{actor}/permission"
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        try:
            reply = HttpClient(Timeouts(total=30.0), env).send(split_url(url), headers, None, CancelToken())
            try:
                status, body = reply.status, reply.read_all(_MAX_ANSWER_BYTES)
            finally:
                reply.close()
            if status == 404:
                return False
            if status == 200:
                found = json.loads(body)
                return found.get("permission") in _ROLES or found.get("role_name") in _ROLES
        except (HttpError, ToolError, ValueError, AttributeError):
            pass  # use the association in the event
    for name in ("comment", "review", "issue", "pull_request"):
        item = event.get(name)
        if isinstance(item, dict) and (item.get("user") or {}).get("login") == actor:
            return item.get("author_association") in _WRITERS
    return False


def action_argv(inputs: Mapping[str, str], event: Mapping[str, Any], env: Mapping[str, str], folder: Path) -> list[str]:
    """Return the arguments for `agent`. Raises ActionError. folder: for the files that it writes."""
    review = inputs.get("review", "")
    prompt = _prompt(inputs)
    if not prompt and review in ("", "false"):
        raise ActionError("There is nothing to do: give the input prompt, prompt_file or review.")
    reviews = review not in ("", "false")
    argv = ["review"] if reviews else ["-p"]
    for name, flag in (("model", "--model"), ("effort", "--effort"), ("max_turns", "--max-turns"),
                       ("settings", "--settings")):  # fmt: skip
        if value := inputs.get(name):
            argv += [flag, value]
    if inputs.get("trust") == "true":
        if _is_fork(event):
            raise ActionError("trust is not for a pull request from a fork: its settings and hooks are anyone's.")
        argv.append("--trust")
    for spec in (f"json:{folder / 'result.json'}", "outputs", f"annotations:{folder / 'annotations'}"):
        argv += ["--report", spec]
    if inputs.get("display_report", "true") != "false" and env.get("GITHUB_STEP_SUMMARY"):
        argv += ["--report", "summary"]
    for spec in inputs.get("reports", "").splitlines():
        argv += ["--report", spec.strip()] if spec.strip() else []
    if reviews:
        base = env.get("GITHUB_BASE_REF", "") if review == "true" else review
        argv += ["--base", base] if base else []
        argv += ["--fail-on", inputs["fail_on"]] if inputs.get("fail_on") else []
        argv += ["--comments", str(folder / "comments.json")]
    else:
        argv += _permissions(inputs)
        if schema := inputs.get("output-schema") or inputs.get("output-schema-file"):
            argv += ["--json-schema", schema]
    for name in ("claude_args", "codex-args", "agent_args"):
        argv += _split_arguments(inputs.get(name, ""), name)
    return [*argv, "--", prompt] if prompt else argv


def _prompt(inputs: Mapping[str, str]) -> str:
    if prompt := inputs.get("prompt"):
        return prompt
    file = inputs.get("prompt_file") or inputs.get("prompt-file")
    if not file:
        return ""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ActionError(f"The prompt file {file} cannot be read: {why}") from None


def _permissions(inputs: Mapping[str, str]) -> Iterator[str]:
    sandboxes = {"": "", "read-only": "dontAsk", "workspace-write": "acceptEdits", "danger-full-access": ""}
    sandbox = inputs.get("sandbox", "")
    if sandbox not in sandboxes:
        raise ActionError(f"sandbox: {sandbox} is unknown; use read-only or workspace-write.")
    if sandbox == "danger-full-access":
        raise ActionError("sandbox: danger-full-access is not offered; list what may run in allowed_tools.")
    if mode := inputs.get("permission_mode") or sandboxes[sandbox]:
        yield from ("--permission-mode", mode)
    for name, flag in (("allowed_tools", "--allowedTools"), ("disallowed_tools", "--disallowedTools")):
        if inputs.get(name):
            yield from (flag, inputs[name])


def _split_arguments(text: str, name: str) -> list[str]:
    """Split text into arguments: a JSON list, or shell words with comments and line breaks."""
    try:
        if text.lstrip().startswith("["):
            return [str(word) for word in json.loads(text)]
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise ActionError(f"{name} cannot be read: {error}") from None


def _is_fork(event: Mapping[str, Any]) -> bool:
    change = event.get("pull_request") or {}
    head, base = (((change.get(side) or {}).get("repo") or {}).get("full_name") for side in ("head", "base"))
    return bool(change) and head != base


def run_step(inputs: Mapping[str, str], event: Mapping[str, Any], env: Mapping[str, str]) -> int:
    """Run `agent` and set the outputs that it does not set itself; return its exit code. Raises ActionError."""
    where = Path(inputs.get("working-directory") or env.get("GITHUB_WORKSPACE") or ".")
    if not where.is_dir():
        raise ActionError(f"working-directory: {where} is no folder.")
    folder = Path(env.get("RUNNER_TEMP") or "/tmp") / f"agent-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    argv = action_argv(inputs, event, env, folder)
    # The model's commands get neither the inputs nor the token of the job.
    kept = {name: value for name, value in env.items() if name != "INPUT_JSON" and value}
    changes = CheckoutChanges(where, folder, env)
    # Output of the model must not be read as workflow commands.
    mark = os.urandom(16).hex()
    sys.stdout.write(f"::stop-commands::{mark}\n")
    sys.stdout.flush()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent_cli", *argv],
        cwd=where, env=kept, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    sys.stdout.write(f"{done.stdout.decode('utf-8', 'replace').rstrip()}\n::{mark}::\n")
    annotations = folder / "annotations"
    sys.stdout.write(annotations.read_text("utf-8") if annotations.exists() else "")
    sys.stdout.flush()
    if file := inputs.get("output-file"):
        Path(file).write_bytes(done.stdout)
    found = {"execution_file": folder / "result.json", "comments": folder / "comments.json"}
    found["patch"] = folder / "changes.patch"
    changes.write_patch(found["patch"])
    _set_outputs({name: str(path) for name, path in found.items() if path.exists()}, env)
    if not (folder / "result.json").exists():
        _set_outputs({"conclusion": "failure", "outcome": "failed"}, env)
    return done.returncode


class CheckoutChanges:
    """What changes in the checkout from now on.

    Git reads the files and objects of the checkout, but works in folders of ours: the model's commands may have written
    the configuration of its repository, or of others inside, which git would run with the keys of this job in reach.
    """

    def __init__(self, where: Path, folder: Path, env: Mapping[str, str]) -> None:
        """Store the state before. folder: for files of ours."""
        here = where.resolve()
        self._root = next((p for p in (here, *here.parents) if os.path.lexists(p / ".git")), None)
        self._folder, self._env = folder, env
        self._before, self._objects, self._error = "", "", ""
        if self._root is not None:
            try:
                self._before, git = self._snapshot(self._root)
                self._objects = f"{git.env['GIT_DIR']}/objects"
            except (GitError, OSError, ValueError) as error:
                self._error = str(error)

    def write_patch(self, file: Path) -> None:
        """Write what changed since as a patch; without a change, or a repository, there is no file."""
        try:
            if self._error:
                raise GitError(self._error)
            if self._root is None:
                return
            after, git = self._snapshot(self._root)
            if after != self._before:
                file.write_bytes(git.run("diff-tree", "-r", "-p", *_PLAIN_DIFF, self._before, after))
        except (GitError, OSError, ValueError) as error:
            sys.stdout.write(f"::warning title=agent::The patch was not written: {_data(str(error))}\n")

    def _snapshot(self, root: Path) -> tuple[str, GitRun]:
        """Return the tree of the files as they are now, and a git that has it. Raises GitError, OSError, ValueError."""
        store = Path(tempfile.mkdtemp(prefix="git-", dir=self._folder))
        program = find_git(self._env.get("PATH", os.defpath), str(root))
        store_git(program, str(store)).run("init", "-q", "--bare", "--template=")
        objects = objects_of(root)
        git = store_git(program, str(store), [*objects, *filter(None, [self._objects])]).on_work_tree(str(root))
        index = store / "index"
        # Where the objects of the repository cannot be used, all files are stored.
        if objects and (source := user_index(root)):
            copy_index(source, index)
            try:
                return store_tree(git, index), git
            except GitError:
                # It needs more than itself (a split index), or is damaged: read all files.
                index.unlink()
        return store_tree(git, index), git


def _set_outputs(values: Mapping[str, str], env: Mapping[str, str]) -> None:
    if not env.get("GITHUB_OUTPUT"):
        return
    with open(env["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        for name, value in values.items():
            mark = f"END-{os.urandom(12).hex()}"
            file.write(f"{name}<<{mark}\n{value}\n{mark}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit(main())
