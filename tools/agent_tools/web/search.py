"""The WebSearch tool: results of a search engine as titles, addresses and snippets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import domain_covers, split_url
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.text import counted, fenced, shorten
from agent_tools.web.fetch import web_limits

with lazy_imports():
    from agent_tools.web import providers

SHOWN = 10
LONGEST = 400
_KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
_ENDPOINTS = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
    "duckduckgo": "https://html.duckduckgo.com/html/",
}


class WebSearchArgs(Value):
    """The arguments of WebSearch."""

    ALIASES: ClassVar = {"query": ("q", "search_term")}

    query: str
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()


class SearchProvider(Value):
    """A search provider, its address and its API key."""

    name: str
    endpoint: str
    key: str = ""


class WebSearch(Tool[WebSearchArgs]):
    """Searches the web."""

    name = "WebSearch"
    Args = WebSearchArgs
    repeatable = True
    editable = "query"
    editable_in_line = True
    granted_whole = True
    parallel_safe = True

    def available(self, ctx: ToolContext) -> bool:
        try:
            provider(ctx)
        except ToolError:
            return False
        return True

    def effects(self, args: WebSearchArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("fetch", provider(ctx).endpoint),)

    def summary(self, args: WebSearchArgs, ctx: ToolContext) -> str:
        domains = [*args.allowed_domains, *(f"not {d}" for d in args.blocked_domains)]
        where = f" ({shorten(', '.join(domains))})" if domains else ""
        return f"Search the web: {shorten(args.query, 200)}{where}"

    def run(self, args: WebSearchArgs, ctx: ToolContext) -> ToolResult:
        # Imports http.client and ssl.
        chosen = provider(ctx)
        query = " ".join(args.query.split())
        if not query or len(query) > LONGEST:
            raise ToolError(f"A query has 1 to {LONGEST} characters; this one has {len(query):,}.")
        allowed, blocked = _domains(args.allowed_domains), _domains(args.blocked_domains)
        hits = providers.search(chosen.name, chosen.endpoint, chosen.key, query, allowed, blocked, ctx, web_limits(ctx))
        # Providers do not apply the filters strictly.
        hits = [h for h in hits if _wanted(split_url(h.url).host, allowed, blocked)][:SHOWN]
        if not hits:
            where = " in these domains" if allowed or blocked else ""
            return ToolResult(f"Nothing was found{where}. Use fewer or other words.", Listing("0 results"))
        lines = [f"{n}. {h.title}\n   {h.url}\n   {h.text}".rstrip() for n, h in enumerate(hits, 1)]
        shown = Listing(f"{counted(len(hits), 'result')} for {shorten(query)}", tuple(h.url for h in hits))
        return ToolResult(fenced("\n".join(lines)), shown)


def provider(ctx: ToolContext) -> SearchProvider:
    """Return the provider that the settings name, or that has a key in the environment; else DuckDuckGo.

    Raises ToolError naming what is missing.
    """
    web = ctx.settings.get("web") or {}
    name = web.get("search") or next((n for n, variable in _KEYS.items() if ctx.env.get(variable)), "duckduckgo")
    own: str = web.get("search_url") or ""
    key = ctx.env.get(_KEYS.get(name, ""), "")
    if name in _KEYS and not key:
        raise ToolError(f"WebSearch is set up for {name}, but {_KEYS[name]} is not set. Tell the user.")
    if name == "searxng":
        if not own:
            raise ToolError("WebSearch is set up for searxng, but search_url under [web] is not set. Tell the user.")
        own = own.rstrip("/")
        own += "" if own.endswith("/search") else "/search"
    return SearchProvider(name, split_url(own or _ENDPOINTS[name]).text, key)


def _domains(entries: Sequence[str]) -> tuple[str, ...]:
    """Parse the hosts in a model's filter: a domain, `*.domain`, or an address. Raises ToolError."""
    bare = (e.strip().removeprefix("*.") for e in entries)
    return tuple(split_url(e if "://" in e else f"https://{e}").host for e in bare)


def _wanted(host: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    return (not allowed or any(domain_covers(d, host) for d in allowed)) and not any(
        domain_covers(d, host) for d in blocked
    )
