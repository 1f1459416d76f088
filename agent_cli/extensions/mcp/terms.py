"""The terms of a login, as `oauth` in a server's declaration says them, and which addresses a login may use."""

from __future__ import annotations

from typing import Any

from agent_cli.config.schema import McpServer
from agent_tools.clipping import shorten

# The spelling of .mcp.json, in every file.
_KINDS: dict[str, type] = {
    "clientId": str,
    "clientSecret": str,
    "callbackPort": int,
    "authServerMetadataUrl": str,
    "scopes": str,
}


def mistake_in_terms(server: McpServer) -> str:
    """What is wrong with `oauth` in a declaration; "" for nothing."""
    said: dict[str, Any] = server.oauth
    if said and not server.url:
        return "oauth, which is for a server with a url"
    for key, value in said.items():
        if key not in _KINDS:
            return f"oauth.{shorten(key, 40)}, which means nothing here"
        if type(value) is not _KINDS[key]:
            return f"an oauth.{key} that is no {'text' if _KINDS[key] is str else 'number'}"
    if not 0 < said.get("callbackPort", 1) < 65536:
        return "an oauth.callbackPort that is no port"
    if not said.get("scopes", "").isprintable() or '"' in said.get("scopes", ""):
        return "oauth.scopes with characters that a scope cannot have"
    if not said.get("authServerMetadataUrl", "https://").startswith(("https://", "http://", "${")):
        return "an oauth.authServerMetadataUrl that is none of http"
    return ""


def has_own_key(server: McpServer) -> bool:
    """Whether the declaration brings its own Authorization header, which then counts instead of a login."""
    return any(name.lower() == "authorization" for name in server.headers)


def may_carry(address: str, server_url: str) -> bool:
    """Whether what belongs to a login may go to an address: by https, or inside this machine for a server on it."""
    if address.startswith("https://"):
        return True
    return _on_this_machine(address) and _on_this_machine(server_url)


def _on_this_machine(address: str) -> bool:
    from urllib.parse import urlsplit

    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    return address.startswith("http://") and (host in ("localhost", "::1") or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(p.isascii() and p.isdigit() for p in parts)
