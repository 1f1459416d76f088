"""What the direct clients share: sending a body, reading the answer as JSON events, and two caches.

Cached are the encoded form of each message, so that a long conversation is not serialized again every round, and the
options that a server has rejected: the request is repeated without them, and the user is notified once. Neither changes
the meaning of a conversation.

`SSEDecoder` parses server-sent events from bytes, however they are split, as the WHATWG standard defines them.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from agent_cli.kernel.messages import AssistantMessage, Message
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    ModelError,
    Notice,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    UsageChunk,
    token_limit,
)
from agent_cli.models.pieces import ReadPace, join_arrived, join_surrogates
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.net.http import HttpClient, HttpResponse, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.urls import DEFAULT_PORTS, Url
from agent_tools.record import Protocol

with lazy_imports():
    from agent_cli.models import errors  # few answers are errors

BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Incremental decoder: returns the events that the fed bytes complete, as pairs of name ("" if unnamed) and data.

    max_bytes: largest event.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._rest: list[bytes] = []
        self._at_start = True
        self._after_cr = self._after_lf = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """Return the events that end within `data`, without those that have no data. Raises OverflowError."""
        if self._at_start:
            data = self._without_bom(data)
        if not data:
            return []
        if self._after_cr or b"\r" in data:
            data = self._plain_line_ends(data)
            if not data:
                return []
        self._rest.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            raise OverflowError
        # A long event arrives in many pieces: join them only once it has ended.
        ends = b"\n\n" in data or (self._after_lf and data.startswith(b"\n"))
        self._after_lf = data.endswith(b"\n")
        if not ends:
            return []
        blocks = b"".join(self._rest).split(b"\n\n")
        self._rest = [blocks.pop()]
        self._size = len(self._rest[0])
        events: list[tuple[str, str]] = []
        for block in blocks:
            # Nearly every block is one data line.
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append(("", block[6:].decode("utf-8", "replace")))
            else:
                _parse(block, events)
        return events

    def end(self) -> list[tuple[str, str]]:
        """Return the event that has no blank line after it, at the end of the stream, if there is one."""
        return self.feed(b"\n\n") if self._rest else []

    def _without_bom(self, data: bytes) -> bytes:
        data = b"".join(self._rest) + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._rest = [data]
            return b""
        self._rest = []
        self._at_start = False
        return data.removeprefix(BOM)

    def _plain_line_ends(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes, events: list[tuple[str, str]]) -> None:
    name = ""
    data: list[str] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field in (b"data", b"error"):  # servers built on llama.cpp send errors in such a line
            data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    if data:
        events.append((name, "\n".join(data)))


T = TypeVar("T")

# The sums in which servers say how much of an answer would fit.
_FIT_PATTERNS = (
    r"> ?(\d{3,8}) ?- ?(\d{1,8})",
    r"maximum context length is (\d{3,8}) .{0,60}?\b(\d{1,8}) (?:input|prompt)",
)
_MIN_LIMIT = 256

MAX_ERROR_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_TEXTS = {TextChunk: ("text",), ThinkingChunk: ("text", "signature", "data"), ToolCallDelta: ("json",)}
_MAX_TOKENS = 10**12
# Raised by reading a value of another type than the protocol defines.
_SHAPE_ERRORS = (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError)

_read_value = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def encode_json(value: Any) -> bytes:
    """Encode a value as compact JSON. What JSON cannot express (NaN, half a surrogate pair) becomes null or "?"."""
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(json.loads(json.dumps(value), parse_constant=lambda _: None))
    return text.encode("utf-8", "replace")


class EncodedMessages(Generic[T]):
    """Caches the encoded form of each message, by the identity of the message."""

    def __init__(self, encode: Callable[[Message], T]) -> None:
        self._encode = encode
        self._known: dict[int, tuple[Message, T]] = {}
        # The latest messages and their forms: most requests add to them.
        self._latest: tuple[list[Message], list[T]] = [], []

    def of(self, messages: Iterable[Message]) -> list[T]:
        """Return the encoded messages, in order."""
        known, every = self._known, list(messages)
        before, forms = self._latest
        forms = forms[:] if len(before) <= len(every) and all(map(is_, before, every)) else []
        for message in every[len(forms) :]:
            entry = known.get(id(message))
            if entry is None:
                # Keeping the message keeps its id from being reused.
                entry = known[id(message)] = (message, self._encode(message))
            forms.append(entry[1])
        if len(known) > 2 * len(forms) + 1000:
            self._known = {id(m): known[id(m)] for m in every if id(m) in known}
        self._latest = every, forms[:]
        return forms

    def forget(self) -> None:
        """Drop the cache, so that everything is encoded again."""
        self._known.clear()
        self._latest = [], []


class ResponseReader(Protocol):
    """Turns the events of a protocol into chunks.

    finished: the answer is complete, whatever may still come.
    """

    finished: bool

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]: ...

    def end(self) -> Iterator[Chunk]: ...


def endpoint_url(url: str) -> Url:
    """Split a base URL, dropping a user name. Raises ModelError (bad_request) if it is not an http address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in DEFAULT_PORTS:
        raise ModelError(Failure("bad_request", f"The base URL {url!r} is not an http or https address."))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Url(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], path)


def model_error(error: HttpError) -> ModelError:
    """Convert a failed exchange to a model error."""
    if error.kind == "not_http":
        return errors.malformed(f"{error} Is the base URL right?")
    return ModelError(Failure("bad_request" if error.kind == "header" else "network", str(error), error.retryable))


class _Trial:
    """What was left out because of a refusal, while it is not known whether that helps.

    complaint: what the refusal says.
    rejected: the options that were left out.
    notices: about them, for the user.
    adapted: something was changed.
    """

    def __init__(self, complaint: str = "") -> None:
        self.complaint = complaint
        self.rejected: set[tuple[str, str]] = set()
        self.notices: list[str] = []
        self.adapted = False


class HttpModelClient(ABC):
    """One endpoint of one provider. Remembers the options that it rejected, as pairs of model and option."""

    def __init__(self, url: str, headers: Mapping[str, str], provider: str, timeouts: Timeouts) -> None:
        self._http = HttpClient(timeouts)
        self._url = url
        self._headers = {"Content-Type": "application/json", **headers}
        self._provider = provider
        self._rejected: set[tuple[str, str]] = set()
        # Refusals that were the same without the options whose names are in their words, by model.
        self._not_options: set[tuple[str, str]] = set()
        self._notified: set[str] = set()
        # The longest answers that errors have named, by model.
        self._max_answer_tokens: dict[str, int] = {}
        self._last_limit = 0

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    @abstractmethod
    def _body(self, request: Request) -> bytes:
        """Return the request in this protocol."""

    @abstractmethod
    def _adapt(self, request: Request, error: ModelError) -> str | None:
        """Adapt the options to a request that was rejected as bad, by remembering what to change.

        Return a notice for the user, "" if that is not worth one, or None if the request cannot be helped. Not called
        for an error about the content of messages or tools: sending less of that is up to the caller.
        """

    def _adapt_form(self, request: Request, error: ModelError) -> bool:
        """Adapt the form in which messages and tools are written to a request that was rejected as bad.

        Return True if the request is to be sent again.
        """
        return False

    def _endpoint(self, request: Request) -> str:
        """Return the URL of a request."""
        return self._url

    def _supports(self, request: Request, option: str) -> bool:
        return (request.model, option) not in self._rejected

    def _limit(self, request: Request, *, reasons: bool = False) -> int | None:
        """Return the limit of an answer with its reasoning; see `token_limit`."""
        limit, most = token_limit(request, reasons=reasons), self._max_answer_tokens.get(request.model)
        self._last_limit = min(limit, most) if limit and most else limit or 0
        return self._last_limit or None

    def _lower_limit(self, request: Request, error: ModelError) -> bool:
        """Remember the longest answer that an error allows. Return True if the request can then be repeated."""
        words = f"{error.failure.message} {error.code}".lower()
        if not self._last_limit or not re.search(errors.ANSWER_LIMIT, words):
            return False
        sums = (found for pattern in _FIT_PATTERNS if (found := re.search(pattern, words)))
        fits = [int(found[1]) - int(found[2]) for found in sums] or map(int, re.findall(r"\b\d{3,8}\b", words))
        most = max((n for n in fits if _MIN_LIMIT <= n < self._last_limit), default=0)
        if most:
            self._max_answer_tokens[request.model] = most
        return bool(most)

    def _notify_once(self, text: str) -> Iterator[Notice]:
        if text and text not in self._notified:
            self._notified.add(text)
            yield Notice(text)

    def _send(self, request: Request, cancel: CancelToken) -> Iterator[Notice | HttpResponse]:
        """Yield notices, and finally the reply, which has status 200."""
        trial = _Trial()
        while True:
            body = self._body(request)
            try:
                reply = self._http.send(
                    endpoint_url(self._endpoint(request)),
                    self._headers,
                    body,
                    cancel,
                    no_idle_timeout=not request.stream,
                )
            except HttpError as broken:
                raise model_error(broken) from broken
            try:
                if 200 <= reply.status < 300:
                    self._check_form(reply)
                    yield from self._notify(trial)
                    yield reply
                    return
                error = errors.error_for_status(
                    reply.status,
                    self._without_key(reply.read_all(MAX_ERROR_BYTES)),
                    reply.header,
                    provider=self._provider,
                    model=request.model,
                    now=time.time(),
                )
            except HttpError as broken:
                reply.close()
                raise model_error(broken) from broken
            except BaseException:  # on any error the connection must not stay open; the catcher reports it
                reply.close()
                raise
            reply.close()
            if error.failure.complaint != trial.complaint:
                yield from self._notify(trial)
                trial = _Trial(error.failure.complaint)
            if self._lower_limit(request, error):
                continue
            if error.failure.kind != "bad_request":
                raise error
            if not self._adapt_form(request, error) and not self._leave_out(request, error, trial):
                raise self._unadapted(request, error, trial, body)

    def _leave_out(self, request: Request, error: ModelError, trial: _Trial) -> bool:
        """Leave out an option that an error is about. Return True if the request is to be sent again."""
        if errors.names_content(error) or (request.model, trial.complaint) in self._not_options:
            return False
        before = set(self._rejected)
        advice = self._adapt(request, error)
        trial.rejected |= self._rejected - before
        if advice:
            trial.notices.append(advice)
        trial.adapted = trial.adapted or advice is not None
        return advice is not None

    def _unadapted(self, request: Request, error: ModelError, trial: _Trial, body: bytes) -> ModelError:
        """Return an error that no option explains. Options that were left out without effect are sent again."""
        failure = error.failure
        if trial.adapted:
            self._rejected -= trial.rejected
            self._not_options.add((request.model, trial.complaint))
        if (request.model, trial.complaint) in self._not_options:
            failure = errors.about_content(failure, error.code)
        if failure.reducible and (named := errors.data_at(errors.words_of(failure, error.code), body)):
            given = (m for m in request.messages if not isinstance(m, AssistantMessage))
            found = dict.fromkeys(item.digest for m in given for item in m.media if item.data in named)
            failure = failure.replace(media=tuple(found))
        error.failure = failure
        return error

    def _notify(self, trial: _Trial) -> Iterator[Notice]:
        for text in trial.notices:
            yield from self._notify_once(text)

    def _listen(
        self, reader: ResponseReader, reply: HttpResponse, last: Callable[[dict[str, Any]], bool]
    ) -> Iterator[Chunk]:
        """Yield the chunks that `reader` makes of a reply, up to the event for which `last` is true."""
        return join_surrogates(join_arrived(self._read_chunks(reader, reply, last)))

    def _read_chunks(
        self, reader: ResponseReader, reply: HttpResponse, last: Callable[[dict[str, Any]], bool]
    ) -> Iterator[Chunk | None]:
        """Yield the chunks, and None where the next one has not arrived yet."""
        try:
            for event in self._objects(reply):
                if event is None:
                    yield None
                    continue
                for chunk in self._chunks_of(reader, event):
                    reply.progress()
                    yield chunk
                if last(event):
                    reply.done()
                    break
        except HttpError as error:
            if not reader.finished:
                raise model_error(error) from error
        except ModelError as error:
            # A network error after the end of the answer does not matter.
            if not reader.finished or error.failure.kind != "network":
                raise
        finally:
            reply.close()
        if not reader.finished:
            message = f"The answer of {self._provider} broke off before its end."
            raise ModelError(Failure("network", message, retryable=True))
        yield from reader.end()

    def _chunks_of(self, reader: ResponseReader, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one event. Raises ModelError if it violates the protocol."""
        try:
            for chunk in reader.read(event):
                if isinstance(chunk, UsageChunk):
                    if (usage := _whole_counts(chunk.usage)) is not None:
                        yield UsageChunk(usage)
                    continue
                if chunk.__class__ is TextChunk and chunk.text.__class__ is str:  # nearly all are
                    yield chunk
                    continue
                if any(getattr(chunk, name).__class__ is not str for name in _TEXTS.get(chunk.__class__, ())):
                    raise TypeError(chunk.__class__.__name__)
                yield chunk
        except _SHAPE_ERRORS as error:
            shown = json.dumps(event, default=str)[:80]
            raise errors.malformed(f"{self._provider} sent an answer in an unknown format: {shown!r}.") from error

    def _without_key(self, body: bytes) -> bytes:
        """Remove the key from a provider's answer, which may repeat it: the sentence goes to logs and screens."""
        for name in ("Authorization", "x-api-key", "x-goog-api-key"):
            secret = self._headers.get(name, "").removeprefix("Bearer ")
            if len(secret) >= 8:
                body = body.replace(secret.encode(), "…".encode())
        return body

    def _check_form(self, reply: HttpResponse) -> None:
        packing = reply.header("content-encoding").lower()
        if packing not in ("", "identity"):
            raise errors.malformed(f"{reply.host} sent a compressed answer ({packing}), which was not asked for.")
        if reply.content_type in ("text/html", "application/xhtml+xml"):
            raise errors.malformed(f"{reply.host} answered with a web page instead of JSON. Is the base URL right?")

    def _objects(self, reply: HttpResponse) -> Iterator[dict[str, Any] | None]:
        """Yield the JSON objects of an event stream up to `[DONE]`, or the one object of a plain JSON answer.

        None follows those that arrived together.
        """
        if reply.content_type == "application/json":
            body = reply.read_all(MAX_ANSWER_BYTES)
            yield self._object(body.decode("utf-8", "replace"))
            return
        splitter = SSEDecoder(MAX_ANSWER_BYTES)
        for data in self._data(reply):
            try:
                found = splitter.feed(data) if data else splitter.end()
            except OverflowError:
                raise errors.malformed(f"{reply.host} sent an event of more than {MAX_ANSWER_BYTES:,} bytes.") from None
            for _, text in found:
                if not text.startswith("{") and text.strip() in ("", "[DONE]"):
                    if text.strip():
                        yield {"done": True}
                elif (event := self._read_object(text, last=not data)) is not None:
                    yield event
            yield None

    def _data(self, reply: HttpResponse) -> Iterator[bytes]:
        """Yield the bytes of a reply, and b"" at its end, also if the connection breaks: what came last may be whole.

        Raises HttpError.
        """
        broken: HttpError | None = None
        pace = ReadPace()
        try:
            while data := pace.read(reply.read):
                yield data
        except HttpError as error:
            broken = error
        yield b""
        if broken is not None:
            raise broken

    def _read_object(self, text: str, *, last: bool) -> dict[str, Any] | None:
        """Return the object. last: the end of the stream follows, which may have cut it; then None is returned."""
        try:
            return self._object(text)
        except ModelError:
            if last:
                return None
            raise

    def _object(self, text: str) -> dict[str, Any]:
        try:
            # As `json.loads` reads nearly all of them, without a search for blanks before and after.
            value, end = _read_value(text) if text.startswith("{") else (None, -1)
            if end != len(text):
                value = json.loads(text)
        except ValueError as error:
            raise errors.malformed(f"{self._provider} sent something other than JSON: {text[:80]!r}.") from error
        except RecursionError as error:
            raise errors.malformed(f"{self._provider} sent JSON that is nested too deeply: {text[:80]!r}.") from error
        if not isinstance(value, dict):
            raise errors.malformed(f"{self._provider} sent JSON in an unknown format: {text[:80]!r}.")
        return value


def _whole_counts(usage: Usage) -> Usage | None:
    """Return the usage in whole tokens; None if a count is no number of tokens, which would spoil all sums."""
    names = ("input", "output", "reasoning", "cache_read", "cache_write", "web_searches", "cache_write_1h")
    counts = [getattr(usage, name) for name in names]
    if not all(isinstance(count, (int, float)) and 0 <= count < _MAX_TOKENS for count in (*counts, usage.cost)):
        return None
    if all(count.__class__ is int for count in counts):
        return usage
    return usage.replace(**dict(zip(names, map(int, counts), strict=True)), cost=float(usage.cost))
