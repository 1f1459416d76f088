"""Small models led by constrained steps: each answer is one JSON object that the server builds by a schema.

A model of a few billion parameters rarely keeps to a protocol of calls. A server that constrains decoding
(llama.cpp, Ollama, vLLM, SGLang, LM Studio) lets it write nothing else; `GuidedClient` wraps the client of one.
A step is a short thought, then one tool with its arguments, or the answer. Which steps are possible follows from the
request and from what was done (`_Turn`): first a look, then the change or the command that was asked for, then a check,
then the answer; what a checker rejects is mended, what is done is left alone, and no step is made twice. The history
itself has calls and text as always, so a session can change to another model and back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    is_user_message,
)
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelClient,
    Request,
    Restarted,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.shell.shown_files import printed_paths

ANSWER = "Answer"
_MAX_THOUGHT_CHARS = 300
# Steps without the change or the command that is wanted: after so many looks only such a step is possible, and after so
# many in all the model may answer without.
_MAX_LOOKS, _MAX_STEPS = 3, 8
# Changes in a row that a checker rejects before something else is possible.
_MAX_REJECTED = 3
# What a result says of a change that a checker rejects, of a command that failed, and of places that are left.
_REJECTED, _FAILED, _LEFT = "[diagnostics: ", r"\[exit code [1-9]", " still in:\n"
# Where a request can begin, so that "how does run work" and "the set" ask for nothing.
_BEGINS = r"(?:^\W*|[.:,;!?(]\s+|\b(?:and|then|please|but|you|must|should)\s+)"
# Where what it is about ends: "do not change anything else" still lets the model change what was asked for.
_ENDS = r"(?=\s*(?:$|[.,;:!?)]|\b(?:please|yet|for now|at all|and|just|only)\b)(?!,? (?:but|except|unless)\b))"
# Of everything: "do not change a.py" still lets the model change another file.
_ASKS_FOR_NO_CHANGE = (
    rf"(?im)(?:{_BEGINS}(?:do\s+not|don['\u2019]t|never)|\bwithout)\s+(?:chang|edit|modify|touch|writ)\w*\s+"
    rf"(?:anything|any\s+(?:files?|code)|(?:the\s+)?files){_ENDS}"
    rf"|(?:{_BEGINS}|\bmake )no (?:changes|edits){_ENDS}|{_BEGINS}read-only{_ENDS}"
)
_CHANGE = "(?:set|change|create|write|add|fix|repair|rename|remove|delete|update|replace|move|implement)"
_ASKS_FOR_A_CHANGE = rf"(?im){_BEGINS}{_CHANGE}\b(?! nothing)"
# Words of a request that may need more than one change of a file.
_MAY_NEED_MORE = (
    r"(?im)\b(?:all(?! else)|both|each|every|everywhere|several|two|three|four|five|also)\b|^\s*(?:[-*]|\d+[.)])\s"
    rf"|\band (?!{_CHANGE}\b|(?:then )?(?:answer|check|commit|explain|make sure|print|run|say|show|tell|test|verify)\b)"
    rf"|, \w+ to\b|\b{_CHANGE} (?:\w+ ){{0,2}}?(?!(?:as|its|this)\b)\w+[^\W_s]s\b"
)
# Programs that change files, in a command of the model.
_WRITES = r">|\b(?:sed +-i|mv|cp|rm|mkdir|touch|git|patch|tee|pip|npm)\b"
_ASKS_TO_RUN = rf"(?im){_BEGINS}(?:run|execute|commit)\b(?! nothing|\()"
_NUMBER = r"(?:sum|total|average|mean|percentage|count)\b(?! (?:function|method|variable|field|column|class)|\()"
_ASKS_FOR_A_NUMBER = (
    rf"(?im)\bhow (?:many|much)\b|\b(?:what|which) number\b|{_BEGINS}(?:calculate|coun(?:t|ting))\b(?!\()"
    r"|\b(?:what|which)\b[^.?!\n]*\b(?:largest|longest)\b"
    rf"|\b(?:what(?: is|['\u2019]s| are)|give|tell|answer)\b[^.?!\n]*\b(?:an?|the) (?:\w+ ){{0,3}}?{_NUMBER}"
)
# The text of a file in a message: that the user mentions, or that a compaction carries over.
_FILE_IN_MESSAGE = r'(?m)^(?:<file path="([^"\n]+)">|----- begin \w+: the present text of (.+?)\. It is )'
# At the beginning of a line that a search shows: "a.py:4: ", or "4:" if only one file was searched.
_PLACE = r"(?m)^(?:([^\s:][^:\n]*?)[:-])?\d+[:-]"
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)("?)', re.DOTALL)
_TOOL = re.compile(r'"tool"\s*:\s*"([^"]*)"')


class GuidedClient:
    """Leads the model behind another client.

    instructions: the system prompt, with a place `{tools}` for one line about each tool.
    replaced: the system prompt that these stand in place of; what follows it in a request is kept.
    """

    def __init__(self, client: ModelClient, instructions: str, replaced: str) -> None:
        self._client, self._instructions, self._replaced = client, instructions, replaced

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`. A request without tools is passed on as it is."""
        if not request.tools:
            yield from self._client.stream(request, cancel)
            return
        calls = sum(len(m.calls) for m in request.messages if isinstance(m, AssistantMessage))
        reader = StepReader(f"call{calls:05d}")
        for chunk in self._client.stream(self._guided(request), cancel):
            if isinstance(chunk, TextChunk):
                yield from reader.feed(chunk.text)
            elif isinstance(chunk, MessageStop):
                yield from reader.end(chunk)
            else:
                if isinstance(chunk, Restarted):
                    reader = StepReader(f"call{calls:05d}")
                yield chunk

    def _guided(self, request: Request) -> Request:
        steps = possible_steps(request)
        return request.replace(
            system=self._system(request),
            messages=tuple(as_steps(request.messages)),
            tools=(),
            tool_choice="auto",
            temperature=0.0 if request.temperature is None else request.temperature,
            json_schema={"anyOf": [step_schema(name, request.tools, seen_files(request.messages)) for name in steps]},
            effort=None,
            thinking_tokens=None,
        )

    def _system(self, request: Request) -> str:
        lines = [f"{_example(tool)}  {tool.description.partition('. ')[0].rstrip('.')}" for tool in request.tools]
        return self._instructions.replace("{tools}", "\n".join(lines)) + request.system.removeprefix(self._replaced)


def _example(tool: ToolSpec) -> str:
    fields = dict.fromkeys(tool.schema.get("required", ()), "...")
    return json.dumps({"think": "...", "tool": tool.name, **fields})


def step_schema(name: str, tools: Iterable[ToolSpec], seen: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of a step: its required arguments in their order, and numbers that may be left out.

    seen: the files that can be edited.
    """
    arguments: dict[str, Any] = {"text": {"type": "string"}}
    required = ["text"]
    for tool in tools:
        if tool.name == name:
            required = list(tool.schema.get("required", ()))
            known = tool.schema.get("properties", {})
            optional = [key for key, value in known.items() if value.get("type") == "integer" and key not in required]
            arguments = {key: _plain(known.get(key, {"type": "string"})) for key in (*required, *optional)}
            if seen and _edits(name):
                arguments[tool_traits(name).file_argument] = {"enum": [*seen]}
    return {
        "type": "object",
        "properties": {
            "think": {"type": "string", "maxLength": _MAX_THOUGHT_CHARS}, "tool": {"const": name}, **arguments,
        },
        "required": ["think", "tool", *required],
        "additionalProperties": False,
    }  # fmt: skip


def _plain(schema: Any) -> Any:
    """Return a schema without descriptions, which some servers do not compile."""
    if isinstance(schema, dict):
        return {k: _plain(value) for k, value in schema.items() if k != "description" or value.__class__ is not str}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


class _Done(Value):
    """A call of the current turn. result: None while it has none."""

    call: ToolCall
    result: ToolMessage | None

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not self.result.is_error

    @property
    def text(self) -> str:
        """The text of the result."""
        return self.result.text if self.result is not None else ""

    @property
    def file(self) -> str:
        """The file that it names; "" for none."""
        return str(self.call.arguments.get(tool_traits(self.call.name).file_argument or "", ""))

    @property
    def command(self) -> str:
        """The command that it runs; "" for none."""
        return str(self.call.arguments.get(tool_traits(self.call.name).command_argument or "", ""))


def possible_steps(request: Request) -> list[str]:
    """Return the names of the tools that the next step may call; `ANSWER` among them if it may end the turn."""
    if request.tool_choice == "none":
        return [ANSWER]
    turn, seen = _Turn(request.messages, request.tools), seen_files(request.messages)
    names = [tool.name for tool in request.tools]
    if turn.forbids_changes:
        names = _without(names, _changes)
    if not seen:
        names = _without(names, _edits)
    names = _without(names, lambda name: name in turn.repeated)
    may_end = bool(turn.done or turn.has_files) and request.tool_choice != "required" and turn.may_end
    if may_end and (turn.has_changed(seen) or len(turn.repeated) > 1):
        return [ANSWER]
    if turn.is_rejected:
        names = _only(names, turn.mends)
    elif turn.has_changed(seen):
        names = _without(names, _changes)
    elif turn.looks_only and seen:
        names = _only(names, turn.is_wanted)
    return [*names, ANSWER] if may_end else names


def _only(names: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Return the names that fit; all of them if none does."""
    return [name for name in names if fits(name)] or names


def _without(names: list[str], fits: Callable[[str], bool]) -> list[str]:
    return _only(names, lambda name: not fits(name))


def _changes(name: str) -> bool:
    return bool(tool_traits(name).changes_files)


def _runs(name: str) -> bool:
    return bool(tool_traits(name).command_argument)


def _checks(name: str) -> bool:
    """Return True if a tool can show what a change did."""
    return _runs(name) or bool(tool_traits(name).searches_content)


class _Turn:
    """What the user asked for in the current turn, and what was done.

    tools: those of the session. done: the calls, in their order. has_files: the text of a file came with the request.
    """

    def __init__(self, messages: Sequence[Message], tools: Iterable[ToolSpec]) -> None:
        self._tools = [tool.name for tool in tools]
        start = max((i for i, message in enumerate(messages) if is_user_message(message)), default=0)
        results = {m.call_id: m for m in messages[start:] if isinstance(m, ToolMessage)}
        calls = [call for m in messages[start:] if isinstance(m, AssistantMessage) for call in m.calls]
        first = messages[start] if messages else None
        text = first.text if isinstance(first, UserMessage) else ""
        self._asked = _request(text)
        self.has_files = re.search(_FILE_IN_MESSAGE, text) is not None
        self.done = [_Done(call, results.get(call.id)) for call in calls]
        # What came after the last change that succeeded, and that change.
        changed = [i for i, each in enumerate(self.done) if _changes(each.call.name) and each.succeeded]
        self._change = self.done[changed[-1]] if changed else None
        self._since = self.done[changed[-1] + 1 :] if changed else self.done

    def _asks(self, pattern: str) -> bool:
        return re.search(pattern, self._asked) is not None

    @property
    def forbids_changes(self) -> bool:
        return self._asks(_ASKS_FOR_NO_CHANGE) and not self._asks(_ASKS_FOR_A_CHANGE)

    @property
    def repeated(self) -> set[str]:
        """The tools that were called twice in the same way since the last change, by a tool or a command."""
        writes = [number for number, each in enumerate(self._since) if re.search(_WRITES, each.command)]
        made = [(each.call.name, each.call.arguments) for each in self._since[writes[-1] + 1 if writes else 0 :]]
        return {call[0] for number, call in enumerate(made) if call in made[:number]}

    @property
    def is_rejected(self) -> bool:
        """True if a checker has just found new problems in the last change; for a few changes only."""
        changes = [each for each in self.done if _changes(each.call.name)]
        return bool(not self._since and self._change and len(changes) <= _MAX_REJECTED) and self._is_wrong

    def mends(self, name: str) -> bool:
        """Return True if a tool can mend the last change: what was written whole is written again."""
        whole = self._change is not None and tool_traits(self._change.call.name).replaces_file
        return _changes(name) and (not whole or bool(tool_traits(name).replaces_file))

    @property
    def _is_wrong(self) -> bool:
        return self._change is not None and _REJECTED in self._change.text

    def has_changed(self, seen: Sequence[str]) -> bool:
        """Return True if the only change that was asked for is made, as far as that can be told.

        That is: one change was asked for, each file that the request names has one, no place is left, and no checker
        or command has failed since.
        """
        if self._change is None or self._is_wrong or _LEFT in self._change.text:
            return False
        if any(re.search(_FAILED, each.text) for each in self._since):
            return False
        named = [path for path in seen if _names(self._asked, path)]
        made = {each.file for each in self.done if _changes(each.call.name) and each.succeeded}
        is_one = len(re.findall(_ASKS_FOR_A_CHANGE, self._asked)) == 1 and not self._asks(_MAY_NEED_MORE)
        return bool(named) and made.issuperset(named) and is_one

    @property
    def _lacks_change(self) -> bool:
        wanted = not self._asks(_ASKS_FOR_NO_CHANGE) and self._asks(_ASKS_FOR_A_CHANGE)
        wanted = wanted and any(map(_changes, self._tools))  # not in a plan
        return wanted and self._change is None and not any(re.search(_WRITES, each.command) for each in self.done)

    @property
    def _lacks_run(self) -> bool:
        """True if a command is wanted, to calculate or for itself, and none has ended since the last change.

        One that fails does not calculate anything.
        """
        calculates = self._asks(_ASKS_FOR_A_NUMBER)
        ran = any(_runs(each.call.name) and not (calculates and re.search(_FAILED, each.text)) for each in self._since)
        return not ran and (self._asks(_ASKS_TO_RUN) or self._asks(_ASKS_FOR_A_NUMBER))

    @property
    def looks_only(self) -> bool:
        """True if the model has looked often enough without doing what is wanted."""
        looks = len(self._since)
        # After a change that failed another look is in place.
        lacks = (self._lacks_change or self._lacks_run) and not (self.done and _changes(self.done[-1].call.name))
        return lacks and _MAX_LOOKS <= looks <= _MAX_STEPS

    def is_wanted(self, name: str) -> bool:
        """Return True if a tool does what was asked for and not done yet."""
        return _runs(name) or (self._lacks_change and _changes(name))

    @property
    def may_end(self) -> bool:
        """True if the turn may end."""
        if len(self._since) > _MAX_STEPS:
            return True
        if self._change is not None or (self.done and _changes(self.done[-1].call.name)):
            checks = any(_checks(each.call.name) for each in self._since)
            if any(map(_checks, self._tools)) and (not checks or _changes(self.done[-1].call.name)):
                return False
        return not (self._lacks_change or self._lacks_run) or not any(map(self.is_wanted, self._tools))


def _edits(name: str) -> bool:
    """Return True if a tool changes a part of one file."""
    traits = tool_traits(name)
    return bool(traits.changes_files and traits.file_argument and not traits.replaces_file)


def seen_files(messages: Sequence[Message]) -> list[str]:
    """Return the files of which the model has seen enough to edit them, as it has them named.

    The lines that a search shows are enough, but not of a file that the user names: it has to be read.
    """
    calls = {call.id: call for m in messages if isinstance(m, AssistantMessage) for call in m.calls}
    asked = "\n".join(_request(m.text) for m in messages if isinstance(m, UserMessage) and is_user_message(m))
    found: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            found += [one or other for one, other in re.findall(_FILE_IN_MESSAGE, message.text)]
        call = calls.get(message.call_id) if isinstance(message, ToolMessage) else None
        if call is None or not isinstance(message, ToolMessage) or message.is_error:
            continue
        traits = tool_traits(call.name)
        if traits.file_argument:
            found.append(str(call.arguments.get(traits.file_argument, "")))
        elif traits.searches_content or traits.command_argument:
            found += map(str, printed_paths(str(call.arguments.get(traits.command_argument, "")), Path()))
            hits = [name or str(call.arguments.get("path", "")) for name in re.findall(_PLACE, message.text)]
            found += [name for name in hits if name and not _names(asked, name)]
    return list(dict.fromkeys(filter(None, found)))


def _request(text: str) -> str:
    """Return a message without the files that came with it."""
    return re.sub(r'(?ms)^<file path="[^"\n]+"[^>\n]*>\n.*?^</file>$', "", text)


def _names(asked: str, path: str) -> bool:
    """Return True if a request names a file."""
    return re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", asked) is not None


def as_steps(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield a conversation as its steps: calls and answers as JSON objects, results and requests as messages."""
    given = list(messages)
    results = {m.call_id: m for m in given if isinstance(m, ToolMessage)}
    shown: set[str] = set()
    for message in given:
        if isinstance(message, ToolMessage):
            if message.call_id not in shown:  # its call is no longer in the conversation
                yield UserMessage(f"result: {message.text}", message.media)
        elif isinstance(message, UserMessage):
            yield message.replace(text=f"request: {message.text}") if is_user_message(message) else message
        else:
            said = (part.text.strip() for part in message.parts if isinstance(part, Thinking | Text))
            thought = " ".join(filter(None, said))
            for call in message.calls:
                yield _step(thought, call.name, call.arguments)
                shown.add(call.id)
                if (result := results.get(call.id)) is not None:
                    yield UserMessage(f"result: {result.text}", result.media)
                thought = ""
            if not message.calls and message.text.strip():
                yield _step("", ANSWER, {"text": message.text})


def _step(thought: str, tool: str, arguments: dict[str, Any]) -> AssistantMessage:
    step = {"think": thought[:_MAX_THOUGHT_CHARS], "tool": tool, **arguments}
    return AssistantMessage((Text(json.dumps(step, ensure_ascii=False)),))


class StepReader:
    """Reads one step while it arrives: the thought as reasoning, the answer as text, a call once it is complete.

    An answer that is no JSON object, from a server that ignores the schema, is text.
    """

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._raw = ""
        self._shown = {"think": 0, "text": 0}

    def feed(self, piece: str) -> Iterator[Chunk]:
        """Yield what the piece adds to the thought or the answer."""
        before, self._raw = self._raw, self._raw + piece
        if not self._is_step():
            if self._raw.strip():
                yield TextChunk(piece if before.strip() else self._raw)
            return
        if new := self._more_of("think"):
            yield ThinkingChunk(new)
        if self._tool() == ANSWER and (new := self._more_of("text")):
            yield TextChunk(new)

    def end(self, stop: MessageStop) -> Iterator[Chunk]:
        """Yield the call, if the step is one, and the end."""
        name = self._tool()
        if self._is_step() and name and name != ANSWER:
            try:
                found = json.loads(self._raw, strict=False)
                given = {key: value for key, value in found.items() if key not in ("think", "tool")}
                arguments = json.dumps(given, ensure_ascii=False)
            except ValueError:
                arguments = self._raw  # cut at the limit: the engine asks for a shorter one
            yield ToolCallStart(0, self._call_id, name)
            yield ToolCallDelta(0, arguments)
            stop = stop if stop.unfinished else MessageStop("tool_use", stop.raw)
        yield stop

    def _is_step(self) -> bool:
        return self._raw.lstrip()[:1] == "{"

    def _tool(self) -> str:
        found = _TOOL.search(self._raw)
        return found[1] if found else ""

    def _more_of(self, key: str) -> str:
        """Return what was not shown yet of a string, as far as its characters are complete."""
        start = re.search(rf'"{key}"\s*:\s*(?=")', self._raw)
        if start is None or (found := _STRING.match(self._raw, start.end())) is None:
            return ""
        try:
            text: str = json.loads(f'"{found[1]}"', strict=False)
        except ValueError:
            return ""  # ends within an escape
        if not found[2] and 0xD800 <= ord(text[-1:] or " ") < 0xDC00:
            return ""  # the other half of a pair follows
        new = text[self._shown[key] :]
        self._shown[key] = len(text)
        return new
