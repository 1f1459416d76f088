"""OpenAI's two protocols at an address of which it is not known which one it wants: the server says so.

Chat Completions refuses newer models of OpenAI and names the Responses API; a server that has no Responses API answers
404. Either way the request is sent again over the other wire, which is then the one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent_cli.providers.base import Chunk, ModelClient, ModelError, Notice, Request
from agent_cli.providers.errors import RESPONSES_API
from agent_tools.cancel import CancelToken

_NOT_HERE = (404, 405, 501)


class EitherWire:
    """`wire` until the server asks for the other one. responses: whether `wire` speaks the Responses API."""

    def __init__(self, wire: ModelClient, other: Callable[[], ModelClient], *, responses: bool) -> None:
        self._wire = wire
        self._other = other
        self._responses = responses
        self._certain = False

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        if self._certain:
            yield from self._wire.stream(request, cancel)
            return
        begun = False
        try:
            for chunk in self._wire.stream(request, cancel):
                begun = begun or not isinstance(chunk, Notice)
                yield chunk
            self._certain = True
            return
        except ModelError as error:
            if begun or not self._asks_for_other(error):
                raise
            refusal = error
        first, self._wire, self._certain = self._wire, self._other(), True
        try:
            yield from self._wire.stream(request, cancel)
        except ModelError as error:
            if error.status not in _NOT_HERE:
                raise
            # Neither is there: the first answer says more.
            self._wire, self._certain = first, False
            raise refusal from error

    def close(self) -> None:
        """Drop the connections that are kept."""
        if (close := getattr(self._wire, "close", None)) is not None:
            close()

    def _asks_for_other(self, error: ModelError) -> bool:
        said = error.failure.message
        if self._responses:
            return error.status in _NOT_HERE and "has no model named" not in said
        return error.failure.kind == "bad_request" and RESPONSES_API in said.lower()
