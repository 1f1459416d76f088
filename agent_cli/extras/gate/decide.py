"""Decide a call of another program: `agent gate decide HOST`, run by its hooks.

The hook's JSON is on standard input, and the answer in the program's own form on standard output. Nothing else is
written there. A call gets the decision that the engine would give it. If that is a question, the hook waits for the
user's answer in `agent pending`, on the page or over the API, and refuses the call before the program's time is up. An
error refuses it, too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

from agent_cli import ToolCall, UsageError
from agent_cli.extras.gate.hosts import Host, HostCall, Verdict, find_host
from agent_cli.kernel.runtime.gate_session import GateSession
from agent_cli.kernel.runtime.gated_call import GatedCall
from agent_cli.kernel.session.store import write_crash_report
from agent_tools.text import escape_controls

_WAIT_SECONDS = 600
# After the deadline, when a call is refused whatever is being done; and how often a hook that waits looks whether it
# still should.
_LATE_SECONDS, _LOOK_SECONDS = 8, 0.1
_MAX_INPUT_BYTES = 64 << 20


def main(words: list[str]) -> int:
    """Answer one hook; return the exit code. words: the host, and `--wait SECONDS`."""
    host, call = None, None
    try:
        host = find_host(words[0] if words else "")
        seconds = int(words[words.index("--wait") + 1]) if "--wait" in words else _WAIT_SECONDS
        call = host.read(_input())
        until = time.time() + seconds
        _refuse_at(until, host, call)
        verdict, reason, note = _answer(host, call, until)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the call must not run unseen
        if not isinstance(error, UsageError):
            write_crash_report(error, os.environ)
        text = escape_controls(str(error)) or type(error).__name__
        asked = call is None or call.moment in ("before", "ask")
        reason = f"agent gate could not decide this call, so it is refused: {text}" if asked else f"agent gate: {text}"
        verdict, note = "deny", ""
        if host is None or call is None:
            sys.stderr.write(f"{reason}\n")
            return 2
    if call.moment in ("before", "ask") or note:
        return _write(host.answer(call.moment, verdict, reason, note), decides=call.moment in ("before", "ask"))
    if reason:
        sys.stderr.write(f"{reason}\n")
    return 0


def _write(answer: str, *, decides: bool) -> int:
    """Write the answer; return the exit code. If that fails, it refuses the call that the answer decides."""
    try:
        sys.stdout.write(answer)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered would fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        refused = ", so the call is refused" if decides else ""
        sys.stderr.write(f"agent gate could not answer{refused}: cannot write to standard output: {error.strerror}.\n")
        return 2 if decides else 1
    return 0


def _input() -> dict[str, Any]:
    try:
        data = json.loads(sys.stdin.buffer.read(_MAX_INPUT_BYTES))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UsageError("Standard input is not the JSON object that a hook gets.")
    return data


def _refuse_at(until: float, host: Host, call: HostCall) -> None:
    """Refuse the call a little after the deadline, whatever is being done: the program would run it at its limit."""
    if call.moment != "before":
        return

    def refuse(*_: object) -> None:
        os.write(1, host.answer("before", "deny", GateSession.NOBODY).encode())
        for connection in watched[1:]:
            os.write(connection, b"\0")  # the exit code
        os._exit(0)

    signal.signal(signal.SIGALRM, refuse)
    signal.setitimer(signal.ITIMER_REAL, until - time.time() + _LATE_SECONDS)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(2)


# Descriptors that are closed at their other end if nobody waits for the answer any more.
watched = [1]


def _reader_gone() -> bool:
    """Wait a moment; return True if nobody waits for the answer any more."""
    poller = select.poll()
    for descriptor in watched:
        poller.register(descriptor, 0)
    return bool(poller.poll(_LOOK_SECONDS * 1000))


def _answer(host: Host, call: HostCall, until: float) -> tuple[Verdict, str, str]:
    session = GateSession(f"{host.name}:{call.session}", host.label, call.cwd, dict(os.environ))
    if call.moment == "prompt":
        if call.prompt.strip():
            session.close_copies()
            session.prompt(call.prompt)
        return "", "", ""
    if call.moment in ("after", "end"):
        session.close_copies(call.key if call.moment == "after" else "")
        if call.moment == "end":
            session.end()
        return "", "", "" if host.takes_notes or call.moment == "end" else session.note_of(call.key)
    call_id = call.key if call.call_id else f"{call.key}-{os.urandom(3).hex()}"
    ours, given = ToolCall(call_id, *host.translate(call)), ToolCall(call_id, call.tool, call.arguments)
    gated = GatedCall(session, ours, given, harmless=call.tool in host.harmless)
    if call.moment == "ask":
        # It was decided before; the program asks once more, by rules of its own.
        return gated.decided_before(), "agent gate: the rules or the user allowed this call", ""
    return gated.decide(until, _reader_gone)
