"""Start `agent serve`: listen, print the ways in, and serve until a signal ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from agent_cli import UsageError
from agent_cli.console import echo, print_notice
from agent_cli.extras.server.app import listen, lock_state, make_app, read_last_link, run_server
from agent_cli.extras.server.guard import OWNER, ROLES, AccessTokenStore
from agent_cli.extras.server.hub import Hub, ServeOptions
from agent_cli.extras.server.pairing import Pairing
from agent_cli.extras.server.qr import qr_lines
from agent_cli.kernel.session.store import state_folder
from agent_tools.record import Value
from agent_tools.text import counted, one_line

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


class ServerStart(Value):
    """What the server is started with.

    folders: those in which sessions may be started.
    allowed_hosts: further names under which requests come, each with its port.
    certfile, keyfile: for TLS; "" for none.
    bypass: requests may choose the mode bypassPermissions.
    private: the setting `web.allow_private`. notify: the setting `serve.notify`.
    ticks: the runs of schedules are started.
    phone: show a code that pairs a phone.
    """

    host: str
    port: int
    folders: tuple[Path, ...]
    allowed_hosts: tuple[str, ...]
    certfile: str
    keyfile: str
    workers: int
    bypass: bool
    private: tuple[str, ...]
    notify: str
    ticks: bool
    phone: bool

    def serve(self, env: Mapping[str, str]) -> int:
        """Serve until a signal comes; return the exit code. Raises UsageError."""
        state = state_folder(env)
        store = AccessTokenStore(state)
        on = _listen(self.host, self.port, state)
        port = int(on.getsockname()[1])
        shown = f"[{self.host}]" if ":" in self.host else self.host
        link, here = _links(self.host, f"{shown}:{port}", self.allowed_hosts, tls=bool(self.certfile))
        lock = lock_state(state, link, here)
        options = ServeOptions(
            workers=self.workers, bypass=self.bypass, link=link, private=self.private, ticks=self.ticks
        )
        hub = Hub(env, list(self.folders), options)
        hosts = [f"{shown}:{port}", *self.allowed_hosts]
        if self.host in (*LOCAL_HOSTS, "0.0.0.0", "::"):
            hosts += [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        echo("\n".join((f"agent serve: {link}", *(f"  project {one_line(str(folder))}" for folder in self.folders))))
        _show_ways_in(store, link, state, phone=self.phone)
        tls = {"ssl_certfile": self.certfile, "ssl_keyfile": self.keyfile or None} if self.certfile else {}
        try:
            run_server(make_app(hub, _with_default_ports(hosts), store, self.notify), on, tls)
        except OSError as error:
            raise UsageError(f"The certificate cannot be used: {error.strerror or error}.") from None
        os.close(lock)
        if at_work := len(hub.pool.running):
            print_notice(f"{counted(at_work, 'session')} at work; the next agent serve finds what runs and what waits.")
        return 0


def _listen(host: str, port: int, state: Path) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        os.close(lock_state(state, *read_last_link(state)))  # if it is our own server that listens there, this says so
        raise UsageError(f"{one_line(host)}:{port} cannot be listened on: {error.strerror or error}.") from None


def _with_default_ports(hosts: list[str]) -> list[str]:
    """Return names of hosts, those with the default port of HTTP or HTTPS also without it."""
    return [*hosts, *(name.rpartition(":")[0] for name in hosts if name.endswith((":80", ":443")))]


def _links(host: str, address: str, names: Sequence[str], *, tls: bool) -> tuple[str, str]:
    """Return the address for others, and for programs of this machine."""
    # Another name for a server that only this machine reaches is that of a proxy or a tunnel, which has TLS.
    scheme = "https" if tls or (names and host in LOCAL_HOSTS) else "http"
    link = f"{scheme}://{(names or [address])[0]}/"
    local = f"127.0.0.1:{address.rpartition(':')[2]}" if host in ("0.0.0.0", "::") else address
    return link, link if tls else f"http://{local}/"


def _show_ways_in(store: AccessTokenStore, link: str, state: Path, *, phone: bool) -> None:
    """Print the first link with its token, or the names of the tokens; for a phone also a code to scan."""
    if not store.all():
        echo(f"Open this link; it is shown once: {link}#token={quote(store.add(OWNER, 'start'))}")
    else:
        names = ", ".join(f"{token.name} ({token.role})" for token in store.all())
        echo(f"  tokens {names}. For another: agent serve token add NAME --role {ROLES[-1]}")
    if phone:
        code = Pairing(state).offer("start")
        address = f"https://{link.partition('://')[2]}#pair={code}"
        echo("\n".join(qr_lines(address)))
        echo(f"Scan this with the phone, or open it there. It works once, for 10 minutes: {address}")
