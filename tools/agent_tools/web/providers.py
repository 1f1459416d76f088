"""Search providers of WebSearch: send queries and parse results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from agent_tools.context import ToolContext
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits, WebResponse
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import UNSAFE, shorten

REQUESTED_RESULTS = 20
_MAX_SNIPPET_CHARS = 500
_MAX_TITLE_CHARS = 200
_KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
_ENDPOINTS = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
    "duckduckgo": "https://html.duckduckgo.com/html/",
}


class SearchProvider(Value):
    """A search provider, its address and its API key."""

    name: str
    endpoint: str
    key: str = ""


class SearchResult(Value):
    """One result. url: in the form of WebFetch."""

    title: str
    url: str
    text: str


def search_provider(ctx: ToolContext) -> SearchProvider:
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


def search(
    name: str, endpoint: str, key: str, query: str, allowed: Sequence[str], blocked: Sequence[str], ctx: ToolContext,
    limits: WebLimits,
) -> list[SearchResult]:  # fmt: skip
    """Return a provider's results in its order. Raises ToolError with a message for the model, or CancelledError."""
    web = WebClient(limits, ctx.env, None, ctx.cancel)
    if name == "tavily":
        body = {
            "query": query,
            "max_results": REQUESTED_RESULTS,
            "include_domains": list(allowed),
            "exclude_domains": list(blocked),
        }
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        answer = web.send(split_url(endpoint), headers, json.dumps(body).encode())
        return _parse_results(_decode_json(name, answer), ("results",), "content")
    full = " ".join([query, _site_filter(allowed), *(f"-site:{domain}" for domain in blocked)]).strip()
    full = " ".join(full.split())
    if name == "duckduckgo":
        return _duckduckgo(full, ctx, limits)
    if name == "brave":
        parameters = {"q": full, "count": str(REQUESTED_RESULTS), "text_decorations": "false"}
        answer = web.send(
            _with_query(endpoint, parameters), {"Accept": "application/json", "X-Subscription-Token": key}
        )
        return _parse_results(_decode_json(name, answer), ("web", "results"), "description")
    answer = web.send(_with_query(endpoint, {"q": full, "format": "json"}), {"Accept": "application/json"})
    return _parse_results(_decode_json(name, answer), ("results",), "content")


def _site_filter(domains: Sequence[str]) -> str:
    sites = [f"site:{domain}" for domain in domains]
    return f"({' OR '.join(sites)})" if len(sites) > 1 else "".join(sites)


def _with_query(endpoint: str, parameters: dict[str, str]) -> Any:
    from urllib.parse import urlencode

    return split_url(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}")


def _decode_json(name: str, answer: WebResponse) -> Any:
    """Decode the JSON of a response. Raises ToolError for an error status or invalid JSON."""
    provider = name.capitalize()
    if answer.status in (401, 403) and name == "searxng":
        raise ToolError("The SearXNG server refused (HTTP 403): its settings must list json under search.formats.")
    if answer.status in (401, 403):
        raise ToolError(f"{provider} rejected the key in {name.upper()}_API_KEY (HTTP {answer.status}). Tell the user.")
    if answer.status == 429:
        raise ToolError(f"{provider} accepts no more searches for now (HTTP 429). Continue without, or wait a while.")
    if answer.status != 200:
        raise ToolError(f"{provider} returned HTTP {answer.status} for the search. Try once more, or continue without.")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ToolError(f"{provider} did not respond with JSON. Check search_url under [web].") from None


def _parse_results(data: Any, keys: tuple[str, ...], snippet: str) -> list[SearchResult]:
    """Return the results at a path of keys in `data`; skip malformed ones."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    found = []
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        try:
            url = split_url(str(entry.get("url") or entry.get("href") or "")).text
        except ToolError:
            continue
        title, text = (
            _plain_text(entry.get("title"), _MAX_TITLE_CHARS),
            _plain_text(entry.get(snippet), _MAX_SNIPPET_CHARS),
        )
        found.append(SearchResult(title or url, url, text))
    return found


def _plain_text(value: Any, width: int) -> str:
    """Return a title or snippet on one line, without markup."""
    from html import unescape

    bare = unescape(re.sub(r"</?[a-zA-Z][^<>]{0,200}>", "", str(value or "")[: width * 10]))
    line = " ".join(re.sub(UNSAFE, " ", bare).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _duckduckgo(query: str, ctx: ToolContext, limits: WebLimits) -> list[SearchResult]:
    """Search with the package ddgs, in a thread, since it cannot be interrupted."""
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException
    except ImportError:
        raise ToolError(
            "A search by DuckDuckGo needs the package ddgs, which is not installed (pip install ddgs). Tell the user."
        ) from None

    env = ctx.env
    proxy = next((v for n in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY") if (v := env.get(n))), None)

    def ask() -> Any:
        client = DDGS(proxy=proxy, timeout=max(round(limits.connect_timeout), 1))
        return client.text(query, max_results=REQUESTED_RESULTS, backend="duckduckgo")

    try:
        return _parse_results({"results": _in_thread(ask, ctx, limits.timeout)}, ("results",), "body")
    except DDGSException as error:
        if "No results" in str(error):
            return []
        raise ToolError(
            f"DuckDuckGo did not answer: {shorten(str(error), 200)}. Continue without, or wait a while."
        ) from None


def _in_thread(work: Callable[[], Any], ctx: ToolContext, seconds: float) -> Any:
    """Return or raise the result of `work`. Raises ToolError if it takes too long, or CancelledError."""
    from threading import Thread
    from time import monotonic

    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((work(), None))
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            outcome.append((None, error))

    thread = Thread(target=run, daemon=True)
    thread.start()
    until = monotonic() + seconds
    while thread.is_alive() and monotonic() < until:
        thread.join(0.05)
        ctx.cancel.check()
    if not outcome:
        raise ToolError(f"DuckDuckGo took longer than {seconds:g} s. Continue without, or try once more.")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value
