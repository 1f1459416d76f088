"""The WebSearch tool: results of a search engine as titles, addresses and snippets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import domain_covers, split_url
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.text import counted, fence_untrusted, shorten
from agent_tools.web.fetch import web_limits

with lazy_imports():
    from agent_tools.web import providers

MAX_RESULTS = 10
MAX_QUERY_CHARS = 400


class WebSearchArgs(Value):
    """The arguments of WebSearch."""

    ALIASES: ClassVar = {"query": ("q", "search_term")}

    query: str
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()


class WebSearch(Tool[WebSearchArgs]):
    """Searches the web."""

    name = "WebSearch"
    Args = WebSearchArgs
    repeatable = True
    editable = "query"
    editable_in_line = True
    granted_whole = True
    parallel_safe = True
    needs = "search engine"

    def effects(self, args: WebSearchArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("fetch", providers.search_provider(ctx).endpoint),)

    def summary(self, args: WebSearchArgs, ctx: ToolContext) -> str:
        domains = [*args.allowed_domains, *(f"not {d}" for d in args.blocked_domains)]
        where = f" ({shorten(', '.join(domains))})" if domains else ""
        return f"Search the web: {shorten(args.query, 200)}{where}"

    def run(self, args: WebSearchArgs, ctx: ToolContext) -> ToolResult:
        chosen = providers.search_provider(ctx)
        query = " ".join(args.query.split())
        if not query or len(query) > MAX_QUERY_CHARS:
            raise ToolError(f"A query has 1 to {MAX_QUERY_CHARS} characters; this one has {len(query):,}.")
        allowed, blocked = _parse_domains(args.allowed_domains), _parse_domains(args.blocked_domains)
        hits = providers.search(chosen.name, chosen.endpoint, chosen.key, query, allowed, blocked, ctx, web_limits(ctx))
        # Providers do not apply the filters strictly.
        hits = [h for h in hits if _passes_filter(split_url(h.url).host, allowed, blocked)][:MAX_RESULTS]
        if not hits:
            where = " in these domains" if allowed or blocked else ""
            return ToolResult(f"Nothing was found{where}. Use fewer or other words.", Listing("0 results"))
        lines = [f"{n}. {h.title}\n   {h.url}\n   {h.text}".rstrip() for n, h in enumerate(hits, 1)]
        shown = Listing(f"{counted(len(hits), 'result')} for {shorten(query)}", tuple(h.url for h in hits))
        return ToolResult(fence_untrusted("\n".join(lines)), shown)


def _parse_domains(entries: Sequence[str]) -> tuple[str, ...]:
    """Parse the hosts in a model's filter: a domain, `*.domain`, or an address. Raises ToolError."""
    bare = (e.strip().removeprefix("*.") for e in entries)
    return tuple(split_url(e if "://" in e else f"https://{e}").host for e in bare)


def _passes_filter(host: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    return (not allowed or any(domain_covers(d, host) for d in allowed)) and not any(
        domain_covers(d, host) for d in blocked
    )
