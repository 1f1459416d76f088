"""The way to the model's server: `agent_tools.net.connect`, with its mistakes as those of a model."""

from __future__ import annotations

import os
import socket
import ssl
from urllib.parse import urlsplit

from agent_cli.core.results import Failure
from agent_cli.providers.base import ModelError
from agent_tools.cancel import CancelToken
from agent_tools.net import connect
from agent_tools.net.connect import DialError, Route, proxy_for
from agent_tools.net.connect import shut_down as shut_down


def network_error(message: str, *, retryable: bool = True) -> ModelError:
    """A `ModelError` of kind network."""
    return ModelError(Failure("network", message, retryable))


def route_to(url: str) -> Route:
    """The route to the server of `url`, proxy variables considered.

    Raises ModelError (bad_request) for something that is not an http or https URL, (network) for a proxy that we
    cannot use.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ModelError(Failure("bad_request", f"The base URL {url!r} is not an http or https address."))
    tls = parts.scheme == "https"
    port = port or (443 if tls else 80)
    try:
        return Route(host, port, tls, proxy_for(parts.scheme, host, port, os.environ))
    except DialError as error:
        raise _as_model_error(error) from error


def model_tls_context() -> ssl.SSLContext:
    """The certificates to trust. Raises ModelError (network) where a variable names some that cannot be read."""
    try:
        return connect.tls_context(os.environ)
    except DialError as error:
        raise _as_model_error(error) from error


def dial_model(route: Route, context: ssl.SSLContext | None, seconds: float, cancel: CancelToken) -> socket.socket:
    """A socket connected to the route's server, tunnelled and encrypted as the route says.

    seconds: for everything together; 0 means no limit. Raises ModelError (network) or Cancelled.
    """
    try:
        return connect.dial(route, context, seconds, cancel)
    except DialError as error:
        raise _as_model_error(error) from error


def _as_model_error(error: DialError) -> ModelError:
    return network_error(str(error), retryable=error.retryable)
