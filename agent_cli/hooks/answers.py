"""Interpret the run of a hook by Claude Code's contract.

exit 0: standard output is the answer, as JSON, or as plain text if the event adds it to the context. exit 2: blocks,
with standard error as the reason. Everything else is a failure of the hook, which blocks nothing unless it is strict.

An answer is read strictly where it loosens and leniently where it refuses. An allow or a changed input takes effect
only if the whole output is one JSON object of the documented form, so that a hook which echoes what the model wrote
never allows by it. A refusal takes effect wherever it is: beside other text, at another level, after a failure.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from agent_cli.hooks.declaration import HookResult, HookVerdict
from agent_cli.hooks.events import HOOK_EVENTS, STRICTNESS
from agent_cli.kernel.events import UsageAdded
from agent_cli.kernel.user_text import decode_user_text
from agent_tools.record import Value
from agent_tools.text import ESCAPES, sanitize_output, shorten

MAX_OUTPUT_BYTES = 1 << 20
_MAX_TEXT_CHARS = 10_000
# How many objects in an output are looked at.
_MAX_OBJECTS = 1_000
# The second name is older, and only for tools of MCP servers.
_OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
_VERDICTS: dict[str, HookVerdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask", "defer": "defer",
}  # fmt: skip
# What hooks write for a refusal, in any case.
_REFUSALS: dict[str, HookVerdict] = {
    **{word: verdict for word, verdict in _VERDICTS.items() if verdict != "allow"},
    **dict.fromkeys(("denied", "blocked", "reject", "rejected", "refuse", "refused"), "deny"),
}
_DECISIONS = ("permissionDecision", "decision", "behavior")
# Where other programs write a refusal.
_REFUSING_KEYS = (*_DECISIONS, "action")
_PROTOCOL = (*_DECISIONS, "hookSpecificOutput", "continue")
# Keys that an answer may have, outside and inside hookSpecificOutput.
_KNOWN = {
    *_PROTOCOL, "permissionDecisionReason", "reason", "message", "stopReason", "systemMessage", "suppressOutput",
    "async", "asyncTimeout", "hookEventName", "additionalContext", "updatedInput", "updatedPermissions", *_OUTPUTS,
    "interrupt", "terminalSequence", "sessionTitle", "initialUserMessage", "watchPaths", "retry", "action", "content",
    "worktreePath",
}  # fmt: skip
_ONLY_INSIDE = ("additionalContext", "updatedInput", *_OUTPUTS)
_FORM_ACTIONS = ("accept", "decline", "cancel")
# Byte order marks and the like, which cannot be seen.
_INVISIBLE = "[\ufeff\u200b\u200e\u200f\u2060]"
_AT_LINE_START = re.compile(r"^[ \t\[]*(\{)", re.MULTILINE)
_ANYWHERE = re.compile(r'(\{)(?=\s*")')
_REFUSAL_IN_WORDS = re.compile(
    rf"""^[ \t]*["']?(?:{"|".join(_REFUSING_KEYS)})["']?[ \t]*[:=][ \t]*["']?(?:{"|".join(_REFUSALS)})\b""",
    re.MULTILINE | re.IGNORECASE,
)
_LOOKS_LIKE_ANSWER = re.compile(rf"""^[ \t\[]*\{{\s*["']?(?:{"|".join(_PROTOCOL)})\b""", re.MULTILINE)


class HookRun(Value):
    """The run of a hook.

    code: exit code; None if there is none.
    cause: how it ended.
    returned: the answer of a function, which prints nothing.
    error: why there is no answer; "" if there is one.
    used: the usage of its model calls.
    """

    code: int | None
    cause: Literal["exit", "time-out", "interrupted", "error"]
    seconds: float = 0.0
    out: bytes = b""
    err: bytes = b""
    error: str = ""
    used: tuple[UsageAdded, ...] = ()
    returned: Mapping[str, Any] | None = None


class HookResponse(Value):
    """The answer of one hook.

    error: what was wrong with it, for the user; "" for nothing.
    message: the hook's message for the user.
    quiet: do not show its output.
    mistaken_block: it failed with exit code 1, which many mistake for a block.
    """

    result: HookResult = HookResult()
    error: str = ""
    message: str = ""
    quiet: bool = False
    mistaken_block: bool = False


def read_answer(event: str, ran: HookRun, *, strict: bool) -> HookResponse:
    """Interpret the run of a hook."""
    err, text = _decode(ran.err), _text(ran.out)
    if ran.cause == "interrupted":
        return HookResponse()
    if ran.returned is not None:
        return read_object(event, ran.returned, strict=strict) if ran.returned else HookResponse()
    if ran.code == 2:
        return _blocked(event, err or _reason_in(text) or "it gave no reason")
    failure = _failure(ran)
    if not failure and text.strip().startswith("{"):
        try:
            decoded = _Decoder().decode(text.strip())
        except (ValueError, RecursionError):
            failure = "printed invalid JSON"
        else:
            hidden = _find_refusal(event, text) if _strange_keys(decoded) else None
            return HookResponse(hidden) if hidden is not None else read_object(event, decoded, strict=strict)
    if (refusal := _find_refusal(event, text)) is not None:
        return HookResponse(refusal)
    if failure:
        cut_off = ran.cause == "time-out" or bool(ran.code)
        answer = _failed(event, failure, err if cut_off else "", strict)
        return answer.replace(mistaken_block=ran.code == 1 and not strict and HOOK_EVENTS[event].blocks)
    return _read_text(event, text.strip(), strict)


def _failure(ran: HookRun) -> str:
    """Return how a run failed; "" if it ended with exit code 0."""
    if ran.cause == "error":
        return ran.error
    if ran.cause == "time-out":
        return f"was ended after {ran.seconds:.3g} s"
    if ran.code:
        return f"was ended by signal {-ran.code}" if ran.code < 0 else f"exited with {ran.code}"
    return f"printed more than {MAX_OUTPUT_BYTES:,} bytes" if len(ran.out) >= MAX_OUTPUT_BYTES else ""


def _read_text(event: str, text: str, strict: bool) -> HookResponse:
    """Interpret an output that is not one JSON object and contains no refusal."""
    texts = (clip_hook_text(sanitize_output(text)),) if text and HOOK_EVENTS[event].plain_text else ()
    if text and HOOK_EVENTS[event].names_folder:
        return HookResponse(HookResult(output=text))
    how = ""
    if _LOOKS_LIKE_ANSWER.search(_visible(text)):
        how = "printed an answer beside other text, where only a refusal takes effect"
    elif HOOK_EVENTS[event].blocks and _REFUSAL_IN_WORDS.search(_visible(text)):
        how = "printed a refusal that is not JSON"
    if how:
        answer = _failed(event, how, "", strict)
        return answer.replace(result=answer.result.replace(context=texts))
    return HookResponse(HookResult(context=texts))


def read_object(event: str, data: Mapping[str, Any], *, strict: bool) -> HookResponse:
    """Interpret an answer given as an object."""
    found = _AnswerReader(event, data)
    result = found.result()
    message, quiet = found.text(data, "systemMessage"), found.flag(data, "suppressOutput", False)
    if found.wrong and strict and result.verdict != "deny" and HOOK_EVENTS[event].blocks:
        result = result.replace(verdict="deny", reason=f"its answer cannot be read: {found.wrong[0]}")
    elif found.wrong and result.verdict == "allow":
        result = result.replace(verdict="", reason="", updates=())
    if found.wrong:
        result = result.replace(changed=None)
    error = f"its answer cannot be read: {'; '.join(found.wrong)}" if found.wrong else ""
    return HookResponse(result, error, message, quiet)


def read_hook_verdict(text: str) -> tuple[int | None, str]:
    """Return the equivalent exit code of an answer, and its reason; None and the text if it is invalid.

    A refusal takes effect wherever it is in the answer.
    """
    for _, found in find_objects(text, anywhere=True):
        if found.get("ok") is False or found.get("decision") in ("block", "deny"):
            return 2, str(found.get("reason") or "the condition is not met")
    # A regular expression would take very long for text with a hundred thousand opening braces.
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[start:end]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return None, text
    return (0, "") if data["ok"] else (2, str(data.get("reason") or "the condition is not met"))


def find_objects(text: str, *, anywhere: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects in a text and their lines, from 1: those at the start of a line, or all.

    Objects inside an answer of a hook are left out, as they are part of it.
    """
    text = _visible(text)
    if text.startswith('"'):
        with suppress(ValueError, RecursionError):
            text = str(json.loads(text))  # JSON that was encoded twice
    decoder, end = _Decoder(), 0
    for number, match in enumerate((_ANYWHERE if anywhere else _AT_LINE_START).finditer(text)):
        if number >= _MAX_OBJECTS:
            return
        if match.start(1) < end:
            continue
        try:
            data, after = decoder.raw_decode(text, match.start(1))
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            end = after if any(key in data for key in _PROTOCOL) else end
            yield text.count("\n", 0, match.start(1)) + 1, data


def _find_refusal(event: str, text: str) -> HookResult | None:
    """Return the strictest refusal in an output that is not one JSON object; None if there is none."""
    row = HOOK_EVENTS[event]
    found: HookResult | None = None
    # Before a call, a refusal in the middle of a line takes effect as well: a false one only costs the call.
    for line, data in find_objects(text, anywhere=row.verdict_key != "decision"):
        result = _AnswerReader(event, data).result()
        if result.verdict in ("", "allow") and result.stop is None:
            continue
        where = f"found on line {line} of the hook's output"
        reason = f"{result.reason} ({where})" if result.reason else f"its refusal was {where}"
        verdict: HookVerdict = "" if result.verdict == "allow" else result.verdict
        if found is None or STRICTNESS.index(verdict) > STRICTNESS.index(found.verdict):
            stop = result.stop if found is None or result.stop is not None else found.stop
            found = HookResult(verdict, reason if verdict else "", stop=stop)
        elif found.stop is None:
            found = found.replace(stop=result.stop)
    return found


def _visible(text: str) -> str:
    """Return a text without colour codes, byte order marks, and other characters that cannot be seen."""
    return re.sub(_INVISIBLE, "", re.sub(ESCAPES, "", text)).strip(" \t")


class _TwiceDict(dict[str, Any]):
    """An object in which a key was set twice. A refusal among the values of a key is kept."""


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_keep_refusals)


def _keep_refusals(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    for key, value in pairs:
        if value is False or (isinstance(value, str) and value.strip().casefold() in _REFUSALS):
            found[key] = value
    return _TwiceDict(found)


def _strange_keys(data: Mapping[str, Any]) -> str:
    """Return the keys of an object that has none of the protocol; "" if it has one, or none at all."""
    names = [str(key) for key in data if key != "hookEventName"]
    return "" if any(name in _KNOWN for name in names) else shorten(", ".join(names), 80)


class _AnswerReader:
    """Reads an answer. wrong: a phrase for each part that is invalid."""

    def __init__(self, event: str, data: Mapping[str, Any]) -> None:
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
        if isinstance(data, _TwiceDict) or isinstance(inner, _TwiceDict):
            self.wrong.append("a key is set twice")
        self.wrong += [
            f"it has no known key, only {keys}" for each in (data, self.inner) if (keys := _strange_keys(each))
        ]
        self.wrong += [f"{key} belongs under hookSpecificOutput" for key in _ONLY_INSIDE if key in data]

    def result(self) -> HookResult:
        verdict, reason = self._verdict()
        changed = self._changed()
        context = self.text(self.inner, "additionalContext")
        stop = None
        if not self.flag(self.data, "continue", True) or self.inner.get("continue") is False:
            stop = self.text(self.data, "stopReason") or "a hook ended the turn"
        if verdict == "deny" and self._decision().get("interrupt") is True:
            stop = reason or "a hook ended the turn"
        return HookResult(
            verdict,
            reason,
            changed,
            self._given(),
            (clip_hook_text(context),) if context and self.row.adds_context else (),
            stop,
            self._updates() if verdict == "allow" else (),
        )

    def _updates(self) -> tuple[dict[str, Any], ...]:
        found = self._decision().get("updatedPermissions") or []
        if isinstance(found, list) and all(isinstance(update, dict) for update in found):
            return tuple(found)
        self.wrong.append("updatedPermissions is not a list of updates")
        return ()

    def _given(self) -> Any:
        """Return what the answer gives beside its decision, by the kind of event."""
        if self.row.answers_form:
            return self._form()
        if self.row.names_folder:
            return self.text(self.inner, "worktreePath") or None
        return self._output() if self.row.changes_output else None

    def _output(self) -> Any:
        return next((self.inner[k] for k in _OUTPUTS if self.inner.get(k) is not None), None)

    def _form(self) -> dict[str, Any] | None:
        """Return the answer to a server's question, in the protocol's form."""
        action, content = self.inner.get("action"), self.inner.get("content")
        if action is None:
            return None
        if action not in _FORM_ACTIONS or not isinstance(content, dict | None):
            self.wrong.append(f"action is one of {', '.join(_FORM_ACTIONS)}, and content an object")
            return None
        return {"action": action, **({"content": content or {}} if action == "accept" else {})}

    def _decision(self) -> dict[str, Any]:
        """Return the object with the behavior, for events whose answers have one."""
        found = self.inner.get("decision") if self.row.verdict_key == "behavior" else None
        return found if isinstance(found, dict) else {}

    def _verdict(self) -> tuple[HookVerdict, str]:
        """Return the decision in its documented place, or a stricter refusal in another one."""
        verdict, reason, wrong = self._documented()
        for word, why in self._words():
            refusal = _REFUSALS.get(word.strip().casefold(), "")
            if refusal in self.row.verdicts and STRICTNESS.index(refusal) > STRICTNESS.index(verdict):
                verdict, reason = refusal, clip_hook_text(why)
            elif refusal and refusal not in self.row.verdicts:
                wrong = wrong or f"{self.row.name} does not accept the decision {shorten(word, 40)!r}"
            elif _VERDICTS.get(word) == "allow" and "allow" in self.row.verdicts and not verdict:
                wrong = wrong or f"the decision {word!r} is in the wrong place"
            elif verdict == "allow" and word not in _VERDICTS:
                wrong = wrong or f"the decision {shorten(word, 40)!r} is unknown"
        unknown = [str(key) for key in self.data if key not in _KNOWN]
        if not (wrong or verdict) and self.row.blocks and unknown and self._reason(self.data):
            wrong = f"it has a reason and no known decision, only {shorten(', '.join(unknown), 80)}"
        if wrong and verdict in ("", "allow"):
            self.wrong.append(wrong)
        return verdict, reason

    def _words(self) -> list[tuple[str, str]]:
        """Return the decisions of all levels, each with its reason."""
        found = []
        for table in (self.inner, self.data):
            for key in _REFUSING_KEYS:
                value, inside = table.get(key), table
                if isinstance(value, dict):
                    inside = value
                    value = next((value[name] for name in _DECISIONS if isinstance(value.get(name), str)), None)
                if isinstance(value, str):
                    found.append((value, self._reason(inside) or self._reason(table) or self._reason(self.data)))
        return found

    def _reason(self, table: Mapping[str, Any]) -> str:
        given = (table.get(key) for key in ("permissionDecisionReason", "reason", "message"))
        return next((sanitize_output(text).strip() for text in given if isinstance(text, str) and text), "")

    def _documented(self) -> tuple[HookVerdict, str, str]:
        """Return the decision in its documented place, its reason, and what is wrong with it."""
        key = self.row.verdict_key
        if key == "behavior":
            if self.inner.get("decision") is not None and not self._decision():
                return "", "", "decision is not an object"
            word, reason = self._decision().get("behavior"), self.text(self._decision(), "message")
        elif key == "permissionDecision":
            word = self.inner.get("permissionDecision", self.data.get("decision"))
            reason = self.text(self.inner, "permissionDecisionReason") or self.text(self.data, "reason")
        else:
            word, reason = self.data.get("decision"), self.text(self.data, "reason")
        verdict = _VERDICTS.get(word, "") if isinstance(word, str) else ""
        if verdict in self.row.verdicts:
            return verdict, clip_hook_text(reason), ""
        if word is None or (key == "decision" and verdict == "allow"):
            return "", "", ""
        if not verdict or key != "decision":
            return "", "", f"the decision {shorten(str(word), 40)!r} is unknown"
        return "", "", f"{self.row.name} does not accept the decision {shorten(str(word), 40)!r}"

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


def _blocked(event: str, reason: str) -> HookResponse:
    """Return a block for exit code 2; for events that cannot be blocked, an error for the user."""
    if HOOK_EVENTS[event].blocks:
        return HookResponse(HookResult("deny", clip_hook_text(reason)))
    return HookResponse(error=f"exited with 2: {shorten(reason, 300)}")


def _failed(event: str, how: str, err: str, strict: bool) -> HookResponse:
    """Return the failure of a hook: an error, and a block if it is strict."""
    text = f"{how}: {shorten(err, 300)}" if err else how
    result = HookResult("deny", clip_hook_text(f"it {text}")) if strict and HOOK_EVENTS[event].blocks else HookResult()
    return HookResponse(result, text)


def _reason_in(text: str) -> str:
    """Return the reason in an answer printed along with exit code 2; "" if there is none."""
    for _, data in find_objects(text):
        inner = data.get("hookSpecificOutput")
        inner = inner if isinstance(inner, dict) else {}
        decision = inner.get("decision") if isinstance(inner.get("decision"), dict) else {}
        found = [inner.get("permissionDecisionReason"), (decision or {}).get("message")]
        found += [data.get("permissionDecisionReason"), data.get("reason"), data.get("stopReason")]
        if reason := next((sanitize_output(each) for each in found if isinstance(each, str) and each), ""):
            return reason
    return ""


def _decode(data: bytes) -> str:
    return sanitize_output(_text(data)).strip()


def _text(data: bytes) -> str:
    """Return an output as text. A byte order mark stays, since such an output is not of the documented form."""
    marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return ("\ufeff" if marked else "") + decode_user_text(data, "replace")


def clip_hook_text(text: str) -> str:
    """Truncate a hook's text for the model."""
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[:_MAX_TEXT_CHARS]}\n[{len(text) - _MAX_TEXT_CHARS:,} more characters of this hook's text were cut]"
