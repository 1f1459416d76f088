"""MCP servers that live in the host process (type `sdk`): their messages pass through the host's own channel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

Message = dict[str, Any]
# Called with a message of the host's server; with None once no more will come.
Receiver = Callable[[Message | None], None]


class HostServers:
    """Carry JSON-RPC messages between this program and the host's servers, by the server's name.

    send: delivers a message to the server of that name. It is called on the thread of the MCP servers, so it must not
        wait for the answer. If it raises, the connection of that server ends.
    names: servers to connect in addition to those that --mcp-config declares with the type sdk.
    elicit: answers a question that a server, of any type, asks the user: its name and the question. It may take as long
        as it needs, and returns None if the host answers no such questions.
    """

    def __init__(
        self,
        send: Callable[[str, Message], None],
        names: Iterable[str] = (),
        elicit: Callable[[str, Message], Message | None] = lambda name, question: None,
    ) -> None:
        self.send, self.elicit = send, elicit
        self.names = tuple(names)
        self._receivers: dict[str, Receiver] = {}
        self._guard = threading.Lock()

    def receive(self, name: str, message: Message) -> None:
        """Deliver a message from the server: an answer, a request or a notification. Callable from any thread.

        Dropped if that server is not connected.
        """
        with self._guard:
            receiver = self._receivers.get(name)
        if receiver is not None:
            receiver(message)

    def end(self, name: str = "") -> None:
        """Report that a server, or with "" every server, is gone. Callable from any thread."""
        with self._guard:
            gone = list(self._receivers.values()) if not name else [r for n, r in self._receivers.items() if n == name]
        for receiver in gone:
            receiver(None)

    def attach(self, name: str, receiver: Receiver) -> None:
        """Pass the messages of a server to `receiver`."""
        with self._guard:
            self._receivers[name] = receiver

    def detach(self, name: str, receiver: Receiver) -> None:
        """Undo `attach`, if it is still that receiver."""
        with self._guard:
            if self._receivers.get(name) is receiver:
                del self._receivers[name]
