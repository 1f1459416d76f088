"""A hook that is a web server: it is sent as a POST what a command is given, and its answer is what one prints.

A 2xx answer is exit code 0. Every other answer, and none, is a failure, which blocks nothing unless the hook is strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import monotonic

from agent_cli.core.hooks import Hook
from agent_cli.extensions.hooks.process import MOST, HookRun
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.urls import split_url
from agent_tools.web import WebClient, WebLimits

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def post(hook: Hook, given: bytes, env: Mapping[str, str], cancel: CancelToken) -> HookRun:
    """Ask the server. Nothing is raised. env: where its headers take variables from, if the hook names them."""
    started = monotonic()
    headers = {name: with_variables(value, hook.variables, env) for name, value in hook.headers.items()}
    limits = WebLimits(max_bytes=MOST, timeout=hook.timeout)
    try:
        # The user named the server, so it may be on this machine.
        answer = WebClient(limits, env, None, cancel).send(
            split_url(hook.command), {**headers, "Content-Type": "application/json"}, given
        )
    except CancelledError:
        return HookRun(None, "interrupted", monotonic() - started)
    except ToolError as error:
        return HookRun(None, "error", monotonic() - started, error=f"got no answer: {error}")
    seconds = monotonic() - started
    if answer.cut or not 200 <= answer.status < 300:
        why = answer.cut or f"was answered with status {answer.status}"
        return HookRun(None, "error", seconds, answer.body, error=why)
    return HookRun(0, "exit", seconds, answer.body)


def with_variables(text: str, allowed: tuple[str, ...], env: Mapping[str, str]) -> str:
    """A header with the variables that the hook names; all others are empty, so that none leaves unnoticed."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return env.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)
