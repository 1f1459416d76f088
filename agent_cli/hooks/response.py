"""Interpret a hook's exit code and output by Claude Code's contract: strictly if it allows, leniently if it blocks.

Whatever else is wrong with an answer, a block in it is a block.

exit 0: standard output is the answer, as JSON, or as plain text if the event adds it to the context. exit 2: blocks,
with standard error as the reason. Everything else is a failure of the hook, which blocks nothing unless it is strict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_cli.core.hooks import HOOK_EVENTS, HookEvent, HookResult, Verdict
from agent_cli.hooks.handlers import MOST, HookRun
from agent_tools.record import Value
from agent_tools.text import sanitize_output, shorten

_WORDS = 10_000
_VERDICTS: dict[str, Verdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask", "defer": "ask",
}  # fmt: skip


class HookResponse(Value):
    """The answer of one hook.

    error: what was wrong with it, for the user.
    message: the hook's message for the user.
    quiet: do not show its output.
    mistaken_block: it failed with an exit code that many mistake for a block.
    """

    result: HookResult = HookResult()
    error: str = ""
    message: str = ""
    quiet: bool = False
    mistaken_block: bool = False


def read_answer(event: HookEvent, ran: HookRun, *, strict: bool) -> HookResponse:
    """Interpret the run of a process."""
    err = _words(ran.err)
    if ran.cause == "error":
        return _failed(event, ran.error, "", strict)
    if ran.cause == "time-out":
        return _failed(event, f"was ended after {ran.seconds:.3g} s", err, strict)
    if ran.code == 2:
        return _refused(event, err or _reason_in(ran.out) or "it gave no reason")
    if ran.code:
        how = f"was ended by signal {-ran.code}" if ran.code < 0 else f"exited with {ran.code}"
        answer = _failed(event, how, err, strict)
        return answer.replace(mistaken_block=ran.code == 1 and not strict and HOOK_EVENTS[event].blocks)
    if len(ran.out) >= MOST:
        return _failed(event, f"printed more than {MOST:,} bytes", "", strict)
    return read_output(event, ran.out.decode("utf-8", "replace"), strict=strict)


def read_output(event: HookEvent, text: str, *, strict: bool) -> HookResponse:
    """Interpret standard output after exit code 0."""
    text = text.strip()
    if not text.startswith("{"):
        said = (clip_hook_text(sanitize_output(text)),) if text and HOOK_EVENTS[event].plain_text else ()
        return HookResponse(HookResult(context=said))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _failed(event, "printed invalid JSON", "", strict)
    return read_object(event, data, strict=strict)


def read_object(event: HookEvent, data: Mapping[str, Any], *, strict: bool) -> HookResponse:
    """Interpret an answer given as an object."""
    found = _Object(event, data)
    result = found.result()
    message, quiet = found.text(data, "systemMessage"), found.flag(data, "suppressOutput", False)
    if found.wrong and strict and result.verdict != "deny" and HOOK_EVENTS[event].blocks:
        result = result.replace(verdict="deny", reason=f"its answer is not understood: {found.wrong[0]}")
    elif found.wrong and result.verdict == "allow":
        result = result.replace(verdict="", reason="")
    error = f"its answer is not understood: {'; '.join(found.wrong)}" if found.wrong else ""
    return HookResponse(result, error, message, quiet)


class _Object:
    """An answer being parsed. wrong: what was not understood, a phrase each."""

    def __init__(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        self.row = HOOK_EVENTS[event]
        self.data = data
        self.wrong: list[str] = []
        inner = data.get("hookSpecificOutput")
        if inner is not None and not isinstance(inner, dict):
            self.wrong.append("hookSpecificOutput is not an object")
        self.inner: dict[str, Any] = inner if isinstance(inner, dict) else {}
        named = self.inner.get("hookEventName", event)
        if named != event:
            self.wrong.append(f"hookEventName is {shorten(str(named), 40)}, not {event}")

    def result(self) -> HookResult:
        verdict, reason = self._verdict()
        changed = self._changed()
        said = self.text(self.inner, "additionalContext")
        stop = None
        if not self.flag(self.data, "continue", True):
            stop = self.text(self.data, "stopReason") or "a hook ended the turn"
        if verdict == "deny" and self._decision().get("interrupt") is True:
            stop = reason or "a hook ended the turn"
        return HookResult(
            verdict, reason, changed, (clip_hook_text(said),) if said and self.row.adds_context else (), stop
        )

    def _decision(self) -> dict[str, Any]:
        """Return the object with the behavior, for events whose answers have one."""
        found = self.inner.get("decision") if self.row.verdict_key == "behavior" else None
        return found if isinstance(found, dict) else {}

    def _verdict(self) -> tuple[Verdict, str]:
        key = self.row.verdict_key
        if key == "behavior":
            if self.inner.get("decision") is not None and not self._decision():
                self.wrong.append("decision is not an object")
            word, reason = self._decision().get("behavior"), self.text(self._decision(), "message")
            if word is None and self.data.get("decision") in ("block", "deny"):
                # Not in the right place, but the intention is clear.
                word, reason = "deny", self.text(self.data, "reason")
        elif key == "permissionDecision":
            word = self.inner.get("permissionDecision", self.data.get("decision"))
            reason = self.text(self.inner, "permissionDecisionReason") or self.text(self.data, "reason")
        else:
            word, reason = self.data.get("decision"), self.text(self.data, "reason")
        if word is None:
            return "", ""
        meant = _VERDICTS.get(word, "") if isinstance(word, str) else ""
        if meant in self.row.verdicts:
            return meant, clip_hook_text(reason)
        if not meant or key != "decision":
            self.wrong.append(f"the decision {shorten(str(word), 40)!r} is none")
        elif meant != "allow":
            self.wrong.append(f"{self.row.name} knows no {shorten(str(word), 40)}")
        return "", ""

    def _changed(self) -> dict[str, Any] | None:
        where = self._decision() if self.row.verdict_key == "behavior" else self.inner
        changed = where.get("updatedInput")
        if changed is None or not self.row.changes_input:
            return None
        if not isinstance(changed, dict):
            self.wrong.append("updatedInput is not an object")
            return None
        return changed

    def text(self, where: Mapping[str, Any], key: str) -> str:
        found = where.get(key)
        if found is None:
            return ""
        if not isinstance(found, str):
            self.wrong.append(f"{key} is not text")
            return ""
        return sanitize_output(found).strip()

    def flag(self, where: Mapping[str, Any], key: str, default: bool) -> bool:
        found = where.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.wrong.append(f"{key} is not true or false")
            return default
        return found


def _refused(event: HookEvent, reason: str) -> HookResponse:
    """Return a block for exit code 2; for events that cannot be blocked, an error for the user."""
    if HOOK_EVENTS[event].blocks:
        return HookResponse(HookResult("deny", clip_hook_text(reason)))
    return HookResponse(error=f"exited with 2: {shorten(reason, 300)}")


def _failed(event: HookEvent, how: str, err: str, strict: bool) -> HookResponse:
    """Return the failure of a hook: an error, and a block if it is strict."""
    said = f"{how}: {shorten(err, 300)}" if err else how
    result = HookResult("deny", clip_hook_text(f"it {said}")) if strict and HOOK_EVENTS[event].blocks else HookResult()
    return HookResponse(result, said)


def _reason_in(out: bytes) -> str:
    """Return the reason in an answer that was printed although the exit code says it all."""
    try:
        data = json.loads(out.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return ""
    inner = data.get("hookSpecificOutput") if isinstance(data, dict) else None
    inner = inner if isinstance(inner, dict) else {}
    decision = inner.get("decision") if isinstance(inner.get("decision"), dict) else {}
    found = [inner.get("permissionDecisionReason"), (decision or {}).get("message")]
    found += [data.get("reason"), data.get("stopReason")] if isinstance(data, dict) else []
    return next((sanitize_output(text) for text in found if isinstance(text, str) and text), "")


def _words(data: bytes) -> str:
    return sanitize_output(data.decode("utf-8", "replace")).strip()


def clip_hook_text(text: str) -> str:
    """Truncate a hook's text for the model."""
    if len(text) <= _WORDS:
        return text
    return f"{text[:_WORDS]}\n[{len(text) - _WORDS:,} more characters of this hook's words were cut]"
