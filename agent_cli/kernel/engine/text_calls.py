"""Read calls that a model writes as text, because its server or the model itself does not know the API's format.

An answer is read as calls only if it is nothing else: white space or one short sentence that announces them, then calls
of known tools, then nothing. A call in an explanation, next to other text, or quoted from a message or a result is
text. `HeldText` holds back what may become such calls, so that users do not see it as an answer first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_cli.kernel.engine.held_text import MARKERS, MAX_LEAD_CHARS
from agent_cli.kernel.engine.repairs import UNCLOSED, JsonReader, LenientJsonError, read_objects, read_values
from agent_cli.kernel.messages import AssistantMessage, Message
from agent_tools.record import Value

_NAME_KEYS = ("name", "tool", "function", "tool_name", "action", "recipient_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "input", "args", "params", "tool_input", "action_input")
_OTHER_KEYS = {"type", "id", "call_id", "index"}
# DeepSeek's tokens have a full-width bar and a low line of their own.
_BAR = "[|\uff5c]"
_GAP = "[_\u2581 ]"
_DSML = rf"(?:{_BAR}DSML{_BAR}|[\w.-]+:)?"
_JSON_FENCE = re.compile(r"\s*```(?:json)?\s*")
# Tokens around and between calls that carry no content.
_FRAME = re.compile(
    rf"\s+|</?{_DSML}(?:function_calls|tool_calls)>|</?[\w-]+:tool_call>|</tool_call>"
    r"|<\|tool_calls_section_(?:begin|end)\|>"
    rf"|<{_BAR}tool{_GAP}calls{_GAP}(?:begin|end){_BAR}>|<{_BAR}tool{_GAP}outputs?{_GAP}begin{_BAR}>|\[/TOOL_CALLS\]"
    r"|<\|python_tag\|>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|</s>|<\|end\|>|<\|call\|>|;"
)
_AHEAD = r"(?=\s*(?:\Z|<))"
_TAGGED = re.compile(rf"<(tool_?call|tools|function_?call)>(.*?)(?:</\1>{_AHEAD}|\Z)", re.DOTALL)
_FUNCTION = re.compile(rf"<function=[\"']?([\w.:-]+)[\"']?>(.*?)(?:</function>{_AHEAD}|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=[\"']?([\w.-]+)[\"']?>(.*?)</parameter>(?=\s*(?:\Z|<parameter=))", re.DOTALL)
_INVOKE = re.compile(rf"<{_DSML}invoke name=[\"']?([\w.:-]+)[\"']?>(.*?)(?:</{_DSML}invoke>{_AHEAD}|\Z)", re.DOTALL)
_NAMED_PARAMETER = re.compile(
    rf"\s*<{_DSML}parameter name=[\"']?([\w.-]+)[\"']?([^<>]*)>(.*?)</{_DSML}parameter>"
    rf"(?=\s*(?:\Z|<{_DSML}parameter name=))",
    re.DOTALL,
)
_KEY_AND_VALUE = re.compile(
    r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>(?=\s*(?:\Z|<arg_key>))", re.DOTALL
)
_HARMONY = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?\s*+to=([\w.:-]++)\s*+"
    r"(?:<\|channel\|>(?:commentary|analysis))?\s*+(?:<\|constrain\|>)?\s*+(?:json|code)?\s*+(?:<\|message\|>)?\s*+(?=\{)"
)
_HARMONY_THOUGHT = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?<\|end\|>", re.DOTALL)
# The name comes before the arguments: Kimi, DeepSeek, Mistral.
_NAME_FIRST = re.compile(
    r"(?:<\|tool_call_begin\|>\s*([\w.:-]+)\s*<\|tool_call_argument_begin\|>"
    rf"|<{_BAR}tool{_GAP}call{_GAP}begin{_BAR}>(?:function<{_BAR}tool{_GAP}sep{_BAR}>)?([\w.:-]+)"
    rf"(?:<{_BAR}tool{_GAP}sep{_BAR}>|\s*(?=```|\{{))"
    r"|\[TOOL_CALLS\]([\w.:-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{))"
)
_NAME_FIRST_END = re.compile(rf"\s*(?:```)?\s*(?:<\|tool_call_end\|>|<{_BAR}tool{_GAP}call{_GAP}end{_BAR}>)?")
_FIRST_NAME = re.compile(
    r"(?:[\"'](?:name|tool|function|tool_name)[\"']\s*:\s*[\"']|<function=|invoke name=\"|<tool_call>\s*|\[TOOL_CALLS\]"
    r"|call_begin\|>\s*|sep\uff5c>|to=)([\w.:-]+)"
)
_BEGINNING_CHARS = 500
_QUOTED_FRAME = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[\w+-]*[ \t]*$|</?tool_call>", re.MULTILINE)
_FENCED = re.compile(r"(`{3,}|~{3,})[\w+-]*[ \t]*\n?(.*?)(?:\1[ \t]*+(?=\n|\Z)|\Z)", re.DOTALL)
_ANNOUNCES = re.compile(
    r"\b(?:I['\u2019]ll|I will|I need to|I(?: a|['\u2019])m going to|let me|let['\u2019]?s|let us)\b", re.IGNORECASE
)
_EXPLAINS = re.compile(
    r"\b(?:examples?|e\.g|instance|format(?:s|ted)?|syntax|schema|sample|template|such as|like (?:this|so|that)|looks?"
    r"|would|you (?:can|could|may|should|need|have)|here(?: i|['\u2019])s|this is|these are|models|do not|don['\u2019]t"
    r"|never|written|emits?|returns?|beispiel|exemple|ejemplo|esempio|exemplo|voorbeeld)\b"
    r"|\u4f8b|\u793a|\u043f\u0440\u0438\u043c\u0435\u0440",
    re.IGNORECASE,
)


class WrittenCall(Value):
    """A call as the model wrote it, before its name is resolved.

    untyped: all values are strings, whatever type the tool expects.
    source: the text that it was read from.
    """

    name: str
    arguments: dict[str, Any]
    untyped: bool = False
    source: str = ""


def read_written_calls(lead: str, text: str, *, rest: bool = False) -> list[WrittenCall]:
    """Return the calls that an answer consists of; none if it contains anything else.

    lead: the text before them.
    rest: text may follow them, as from a model that then imagines their results.
    """
    if thought := _HARMONY_THOUGHT.match(text):
        text = text[thought.end() :]
    if lead.strip() and not _announces(lead.strip(), marked=text.lstrip().startswith(MARKERS)):
        return []
    calls: list[WrittenCall] = []
    try:
        calls.extend(_calls(text))
    except (LenientJsonError, _NotCallError):
        return calls if rest else []
    return calls


def read_last_call(text: str, names: Iterable[str]) -> tuple[str, list[WrittenCall]]:
    """Return the call at the end of a small model's answer, and the text before it, whatever that is.

    The call is in a format that models use only for calls, or JSON in a code fence, or a known tool's name and its
    arguments in JSON: `Bash {"command": "pytest"}`.
    """
    begins = [
        found.start() for found in re.finditer(r"^[ \t]*(?:```json\s*\{|<tools>|<tool_call>)", text, re.MULTILINE)
    ]
    if begins:
        return text[: begins[-1]], read_written_calls("", text[begins[-1] :])
    named = re.compile(rf"^[ \t]*[`*]*({'|'.join(map(re.escape, names))})[`*]*[ \t]*[:(]?\s*(?=\{{)", re.MULTILINE)
    found = next(named.finditer(text), None)
    if found is None:
        return "", []
    try:
        value, end = _value(text, found.end())
    except (LenientJsonError, _NotCallError):
        return "", []
    # After a call that is the whole answer, the model may imagine the result.
    if text[end:].strip("`*); \n") and text[: found.start()].strip():
        return "", []
    call = _call(found[1], (value,))
    return text[: found.start()], [call.replace(source=text[found.start() : end])]


def _announces(lead: str, *, marked: bool) -> bool:
    """Return True if a text announces a call and explains nothing.

    marked: the call is in a format that models use only for calls, so that any wording announces it.
    """
    if len(lead) > MAX_LEAD_CHARS or lead.count("\n") > 2 or _EXPLAINS.search(lead):
        return False
    return marked or _ANNOUNCES.search(lead) is not None


def is_quoted(calls: Iterable[WrittenCall], history: Iterable[Message]) -> bool:
    """Return True if a message or a result of the conversation contains one of the calls, apart from white space.

    The model then quotes the call, or wrote it into a file, and does not make it.
    """
    sources = ["".join(_QUOTED_FRAME.sub("", call.source).split()) for call in calls]
    texts = ("".join(m.text.split()) for m in history if not isinstance(m, AssistantMessage))
    return any(source in text for text in texts for source in sources)


def typed(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Convert arguments that are strings to the types of the schema, where they can be read as such."""
    properties = schema.get("properties", {})
    return {name: _typed(value, properties.get(name, {})) for name, value in arguments.items()}


def _typed(text: Any, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(text, str) or kind in (None, "string"):
        return text
    try:
        reader = JsonReader(text)
        value, end = reader.value(0)
    except LenientJsonError:
        return text
    return (
        value
        if reader.skip_whitespace(end) == len(text) and not reader.repairs.keys() & {"closers", UNCLOSED}
        else text
    )


def first_name(text: str) -> str:
    """Return the tool's name in the beginning of a truncated call; "" if there is none."""
    found = _FIRST_NAME.search(text[:_BEGINNING_CHARS])
    return found[1] if found else ""


class _NotCallError(Exception):
    """The text is not a sequence of calls."""


def _calls(text: str) -> Iterator[WrittenCall]:
    """Yield the calls of a text that consists of nothing else. Raises _NotCallError or LenientJsonError."""
    position = 0
    while position < len(text):
        if frame := _FRAME.match(text, position):
            position = frame.end()
            continue
        for pattern, read in _SHAPES:
            if (found := pattern.match(text, position)) is not None:
                calls, end = read(text, found)
                yield from (call if call.source else call.replace(source=text[position:end]) for call in calls)
                position = end
                break
        else:
            raise _NotCallError


_Read = tuple[list[WrittenCall], int]


def _tagged(text: str, found: re.Match[str]) -> _Read:
    body = found[2].strip()
    if _FUNCTION.match(body) or _INVOKE.match(body):
        return list(_calls(body)), found.end()
    name, _, rest = body.partition("<arg_key>")
    if re.fullmatch(r"[\w.:-]+", name.strip()):
        values = _pairs(_KEY_AND_VALUE, f"<arg_key>{rest}" if rest else "")
        return [_untyped(name, values)], found.end()
    return _of_json(body), found.end()


def _function(text: str, found: re.Match[str]) -> _Read:
    name, body = found[1], found[2]
    if body.lstrip().startswith("{"):
        return [_call(name, read_objects(body).objects)], found.end()
    return [_untyped(name, ((key, _without_frame(value)) for key, value in _pairs(_PARAMETER, body)))], found.end()


def _invoke(text: str, found: re.Match[str]) -> _Read:
    values: list[tuple[str, Any]] = []
    position = 0
    body = found[2].rstrip()
    while position < len(body):
        if (one := _NAMED_PARAMETER.match(body, position)) is None:
            raise _NotCallError
        # DSML marks values that are not strings.
        plain = 'string="false"' in one[2] and one[3].strip()
        values.append((one[1], read_values(one[3])[0][0] if plain else one[3]))
        position = one.end()
    return [_untyped(found[1], values)], found.end()


def _harmony(text: str, found: re.Match[str]) -> _Read:
    value, end = _value(text, found.end())
    return [_call(found[1], (value,))], end


def _name_first(text: str, found: re.Match[str]) -> _Read:
    position = found.end()
    fence = _JSON_FENCE.match(text, position)
    value, position = _value(text, fence.end() if fence else position)
    end = _NAME_FIRST_END.match(text, position)
    name = found[1] or found[2] or found[3]
    return [_call(name, (value,))], end.end() if end else position


def _mistral(text: str, found: re.Match[str]) -> _Read:
    value, end = _value(text, found.end())
    return _of_values([value]), end


def _fenced(text: str, found: re.Match[str]) -> _Read:
    body = found[2].strip()
    return (list(_calls(body)) if body.startswith("<") else _of_json(body)), found.end()


def _bare(text: str, found: re.Match[str]) -> _Read:
    """Read JSON that extends to the end of the text, or to a token after it."""
    value, end = _value(text, found.start())
    rest = text[end:].strip()
    if rest and not rest.strip("}]"):
        end = len(text)
    return _of_values([value]), end


_SHAPES: tuple[tuple[re.Pattern[str], Callable[[str, re.Match[str]], _Read]], ...] = (
    (_TAGGED, _tagged),
    (_FUNCTION, _function),
    (_INVOKE, _invoke),
    (_HARMONY, _harmony),
    (_NAME_FIRST, _name_first),
    (re.compile(r"\[TOOL_CALLS\]\s*(?=[\[{])"), _mistral),
    (_FENCED, _fenced),
    (re.compile(r"(?=[{\[])"), _bare),
)


def _value(text: str, position: int) -> tuple[Any, int]:
    reader = JsonReader(text)
    value, end = reader.value(position)
    if UNCLOSED in reader.repairs:
        raise _NotCallError
    return value, end


def _of_json(text: str) -> list[WrittenCall]:
    values, repairs = read_values(text)
    if UNCLOSED in repairs:
        raise _NotCallError
    return _of_values(values)


def _of_values(values: list[Any]) -> list[WrittenCall]:
    """Return the calls in JSON values, each an object or a list of objects."""
    found: list[WrittenCall] = []
    for value in values:
        if isinstance(value, list):
            found += _of_values(value)
        elif isinstance(value, dict) and value.keys() == {"tool_calls"}:
            found += _of_values([value["tool_calls"]])
        elif isinstance(value, dict):
            found.append(_of_object(value))
        else:
            raise _NotCallError
    if not found:
        raise _NotCallError
    return found


def _of_object(value: dict[str, Any]) -> WrittenCall:
    """Return the call that an object describes: one name, one set of arguments, and nothing else."""
    for wrapper in ("function", "tool_call", "function_call"):
        if isinstance(inner := value.get(wrapper), dict) and value.keys() <= {wrapper, *_OTHER_KEYS}:
            return _of_object(inner)
    names = [key for key in _NAME_KEYS if isinstance(value.get(key), str)]
    given = [key for key in _ARGUMENT_KEYS if key in value]
    if len(names) != 1 or len(given) != 1 or not value.keys() <= {*names, *given, *_OTHER_KEYS}:
        raise _NotCallError
    if value.get("type", "function") not in ("function", "tool_use", "tool_call", "function_call"):
        raise _NotCallError
    arguments = value[given[0]]
    if isinstance(arguments, str):
        arguments = read_objects(arguments).objects[0] if arguments.strip() else {}
    return _call(value[names[0]], (arguments,))


def _call(name: str, objects: tuple[Any, ...]) -> WrittenCall:
    if len(objects) != 1 or not isinstance(objects[0], dict):
        raise _NotCallError
    return WrittenCall(name, objects[0])


def _pairs(pattern: re.Pattern[str], body: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values that a text consists of. Raises _NotCallError."""
    position = 0
    body = body.rstrip()
    while position < len(body):
        if (found := pattern.match(body, position)) is None:
            raise _NotCallError
        yield found[1], found[2]
        position = found.end()


def _untyped(name: str, pairs: Iterable[tuple[str, Any]]) -> WrittenCall:
    """Return a call with these arguments. Raises _NotCallError for a repeated name: it may be part of a value."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key.strip() in values:
            raise _NotCallError
        values[key.strip()] = value
    return WrittenCall(name.strip(), values, untyped=True)


def _without_frame(value: str) -> str:
    """Return a value without the line breaks that set it off from its tags."""
    return value.removeprefix("\n").removesuffix("\n")
