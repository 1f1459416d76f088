"""Resolve the session to resume and the worktree before a run begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli import (
    Layers,
    RunEnvironment,
    SessionNotFoundError,
    SessionStore,
    SessionSummary,
    UsageError,
    find_environment,
    read_settings,
)
from agent_cli.cli.run_options import PICK_SESSION, RunOptions, session_config
from agent_cli.console import print_notice
from agent_cli.kernel.runtime.transcripts import find_foreign
from agent_tools.lazy import lazy_imports
from agent_tools.text import shorten

with lazy_imports():
    from agent_cli.kernel.runtime import worktree_hooks  # only for worktrees
    from agent_cli.shells.terminal.dialogs import session_picker  # prompt-toolkit
    from agent_cli.takeover import stores  # only for sessions of other agents


def run_in_worktree(options: RunOptions, run: Callable[[RunOptions], int]) -> int:
    """Run with the requested session and worktree; return the exit code. Raises UsageError."""
    worktree = None
    if options.worktree is not None:
        run_env = find_environment(os.environ)
        layers = read_settings(session_config(options), run_env)
        options = with_absolute_paths(options)
        wanted = (options.worktree or "").removeprefix(PICK_SESSION)
        worktree = worktree_hooks.WorktreeHooks(layers, run_env, print_notice).enter(wanted)
        options = options.replace(worktree=worktree.name)
    try:
        if worktree is not None:
            print_notice(worktree.message)
            trust = layers_of(worktree.repo, options, run_env).trust
            worktree.copy_settings(trust, run_env.env, lasting=not options.trust and not options.bare)
        chosen = resolve_session(options)
        return run(chosen) if chosen is not None else 0
    finally:
        if worktree is not None:
            for line in worktree.release(os.environ):
                print_notice(line)


def with_taken_over(options: RunOptions) -> RunOptions:
    """Return the options with the session that `--resume @claude` takes over. Raises UsageError."""
    if options.no_session_persistence:
        raise UsageError(f"--resume {options.resume} saves the session: leave out --no-session-persistence.")
    if options.worktree is not None:
        raise UsageError("Take the session over first: agent sessions import. Then: agent -w -r ID --fork-session")
    taken = stores.take_over_named(find_environment(os.environ), options.resume or "")
    print_notice(taken.sentence)
    return options.replace(resume=taken.session_id)


def with_absolute_paths(options: RunOptions) -> RunOptions:
    """Return the options with paths resolved from here: the worktree is another directory."""

    def absolute(text: str) -> str:
        return os.path.abspath(text) if os.path.exists(text) else text  # noqa: PTH100, PTH110

    several = {
        name: tuple(map(absolute, getattr(options, name)))
        for name in ("settings", "add_dir", "mcp_config", "image", "plugin_dir", "plugin_dir_no_mcp")
    }
    schema = options.json_schema and absolute(options.json_schema)
    # These files may not exist yet.
    reports = tuple(_absolute_report(spec) for spec in options.report)
    written = {
        name: os.path.abspath(os.path.expanduser(file))  # noqa: PTH100
        for name in ("record", "output_last_message", "debug_file", "system_prompt_file", "append_system_prompt_file")
        if (file := getattr(options, name))
    }
    return options.replace(
        json_schema=schema, report=reports, model=_absolute_model(options.model), **several, **written
    )


def _absolute_report(spec: str) -> str:
    name, colon, file = spec.partition(":")
    return f"{name}{colon}{os.path.abspath(file)}" if file else spec  # noqa: PTH100


def _absolute_model(model: str | None) -> str | None:
    """Return the name of a model with the path of its script or recording resolved."""
    kind, colon, file = (model or "").partition(":")
    return f"{kind}:{os.path.abspath(file)}" if colon and kind in ("scripted", "replay") else model  # noqa: PTH100


def layers_of(repo: Path, options: RunOptions, run_env: RunEnvironment) -> Layers:
    """Return the settings of the repository that a worktree belongs to. Raises UsageError."""
    return read_settings(session_config(options), RunEnvironment(repo, repo, run_env.home, run_env.env))


def resolve_session(options: RunOptions) -> RunOptions | None:
    """Return the options with the ID of the requested session; None if the user chose none. Raises UsageError."""
    if options.resume is None or options.print:
        return options
    store = SessionStore.of(find_environment(os.environ))
    text, prompt = options.resume, options.prompt
    if text == PICK_SESSION:
        found = list(store.summaries())
        if not found:
            raise UsageError("There is no earlier session in this project.")
        return _choose(options, found, "")
    if prompt and not store.is_reference(text):
        # Treat all unquoted words as search words, so that none is sent by mistake.
        text, prompt = " ".join((text, *prompt)), ()
    try:
        path = store.find(text, anywhere=options.fork_session).path
    except SessionNotFoundError as error:
        if error.found:
            return _choose(options.replace(prompt=prompt), error.found, str(error))
        try:
            foreign = find_foreign(text, find_environment(os.environ), anywhere=options.fork_session)
        except SessionNotFoundError as elsewhere:
            raise UsageError(str(elsewhere)) from None
        if foreign is None:
            raise UsageError(str(error)) from None
        path = foreign
    return options.replace(resume=path.stem, prompt=prompt)


def _choose(options: RunOptions, found: Sequence[SessionSummary], several: str) -> RunOptions | None:
    """Let the user choose. Raises UsageError if nobody can be asked."""
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError(several or f"--resume needs a session's ID here. The latest: {_label(found[0])}")
    plain = options.plain or os.environ.get("TERM", "") in ("", "dumb", "unknown") or sys.platform == "win32"
    if plain or read_settings(session_config(options), find_environment(os.environ)).settings().terminal.plain:
        chosen = session_picker.pick_from_lines(found)
    else:
        chosen = session_picker.pick_session(found)
    return options.replace(resume=chosen.session_id) if chosen is not None else None


def _label(g: SessionSummary) -> str:
    return f"{g.session_id[:8]} ({shorten(g.title, 40)})"
