"""WebSearch: which provider is asked, what it is sent, what comes of its answers, and how a missing set-up is told."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_tools.base import Effect, ToolError
from tests.support.program import agent
from tests.support.stalled_ports import PROMPT, cancelled_within
from tests.support.tool_bench import TOOLS, Bench
from tests.support.web_server import WebServer, page

HITS = [
    {
        "title": "The <strong>first</strong> &amp; best",
        "url": "https://docs.example.org/a",
        "text": "Says <b>this</b>.",
    },
    {"title": "", "url": "https://other.example/x y", "text": "a link that is none"},
    {"title": "Second\nline\u202e", "url": "https://Blog.Example.com", "text": "z " * 900},
    {"title": "Third", "url": "javascript:alert(1)", "text": ""},
    "not even an object",
    {"title": "Fourth", "url": "https://example.org/4", "text": None},
]


def page_of(field: str, *, nested: bool = False) -> bytes:
    """A provider's answer, with snippets under `field`."""
    results = [{"title": h["title"], "url": h["url"], field: h["text"]} if isinstance(h, dict) else h for h in HITS]
    return page(json.dumps({"web": {"results": results}} if nested else {"results": results}), "application/json")


def ready(bench: Bench, server: WebServer, name: str) -> Bench:
    bench.ctx.settings["web"] = {"search": name, "search_url": server.url("/"), "timeout": 20.0}
    bench.ctx.env = {"BRAVE_API_KEY": "brave-key", "TAVILY_API_KEY": "tavily-key"}
    return bench


ANSWERS = {
    "brave": ("/", page_of("description", nested=True)),
    "tavily": ("/", page_of("content")),
    "searxng": ("/search", page_of("content")),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_results_are_reported_with_title_address_and_snippet(bench: Bench, name: str) -> None:
    path, answer = ANSWERS[name]
    with WebServer({path: answer}) as server:
        text = ready(bench, server, name)("WebSearch", query="  how to\nsearch ").text
    first, *lines, last = text.splitlines()
    assert first.startswith("----- begin ")
    assert last.startswith("----- end ")
    assert lines[:3] == ["1. The first & best", "   https://docs.example.org/a", "   Says this."]
    assert lines[3:5] == ["2. Second line", "   https://blog.example.com/"]
    assert len(lines[5]) < 510
    assert lines[6:] == ["3. Fourth", "   https://example.org/4"]


def test_what_each_provider_is_sent(bench: Bench) -> None:
    with WebServer(dict(ANSWERS.values())) as server:
        filters: dict[str, Any] = {"allowed_domains": ["a.example", "b.example"], "blocked_domains": ["c.example"]}
        server.pages["/"] = ANSWERS["brave"][1]
        ready(bench, server, "brave")("WebSearch", query="x & y", **filters)
        line, headers = server.seen[-1]
        assert line.startswith("GET /?q=x+%26+y+%28site%3Aa.example+OR+site%3Ab.example%29+-site%3Ac.example&count=20&")
        assert headers["x-subscription-token"] == "brave-key"
        server.pages["/"] = ANSWERS["tavily"][1]
        ready(bench, server, "tavily")("WebSearch", query="x & y", **filters)
        line, headers = server.seen[-1]
        assert line == "POST / HTTP/1.1"
        assert headers["authorization"] == "Bearer tavily-key"
        body = json.loads(server.body)
        assert body["query"] == "x & y"
        assert (body["include_domains"], body["exclude_domains"]) == (["a.example", "b.example"], ["c.example"])
        ready(bench, server, "searxng")("WebSearch", query="x")
        line, headers = server.seen[-1]
        assert line == "GET /search?q=x&format=json HTTP/1.1"
        assert "brave-key" not in str(headers) + line


def test_domains_are_filtered_here_too(bench: Bench) -> None:
    with WebServer({"/search": ANSWERS["searxng"][1]}) as server:
        ready(bench, server, "searxng")
        only = bench("WebSearch", query="x", allowed_domains=["https://example.org/path"]).text
        assert "docs.example.org" in only
        assert "https://example.org/4" in only
        assert "blog" not in only
        rest = bench("WebSearch", query="x", blocked_domains=["*.Example.org"]).text
        assert "example.org" not in rest
        assert "blog.example.com" in rest
        none = bench("WebSearch", query="x", allowed_domains=["ample.org"]).text
        assert none == "Nothing was found in these domains. Use fewer or other words."
        assert "cannot be fetched" in bench.fails("WebSearch", query="x", allowed_domains=["a b"])


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("brave", page("x", status="401 Unauthorized"), "Brave rejected the key in BRAVE_API_KEY (HTTP 401)"),
        ("tavily", page("x", status="403 Forbidden"), "Tavily rejected the key in TAVILY_API_KEY (HTTP 403)"),
        ("searxng", page("x", status="403 Forbidden"), "must list json under search.formats"),
        ("brave", page("x", status="429 Too Many"), "accepts no more searches for now"),
        ("brave", page("x", status="503 Busy"), "returned HTTP 503 for the search"),
        ("brave", page("", status="302 Found", Location="https://evil.example/"), "HTTP 302"),
        ("brave", page("<html>"), "did not respond with JSON"),
        ("brave", page("[" * 100_000), "did not respond with JSON"),
        ("brave", page('{"web": []}'), "Nothing was found."),
        ("brave", page("[1]"), "Nothing was found."),
    ],
)
def test_answers_that_are_none(bench: Bench, name: str, answer: bytes, words: str) -> None:
    with WebServer({"/": answer, "/search": answer}) as server:
        ready(bench, server, name)
        try:
            text = bench("WebSearch", query="x").text
        except ToolError as error:
            text = str(error)
    assert words in text
    assert "brave-key" not in text


def test_a_provider_that_does_not_answer(bench: Bench) -> None:
    with WebServer() as server:
        server.pages["/"] = server.silent()
        ready(bench, server, "brave").ctx.settings["web"]["timeout"] = 0.2
        assert "took longer than 0.2 s" in bench.fails("WebSearch", query="x")


@pytest.mark.parametrize("query", ["", " \n", "x" * 401])
def test_queries_have_a_length(bench: Bench, query: str) -> None:
    bench.ctx.env = {"BRAVE_API_KEY": "k"}
    assert "1 to 400 characters" in bench.fails("WebSearch", query=query)


# Which provider.


@pytest.mark.parametrize(
    ("settings", "env", "endpoint"),
    [
        ({}, {"BRAVE_API_KEY": "k", "TAVILY_API_KEY": "k"}, "https://api.search.brave.com/res/v1/web/search"),
        ({}, {"TAVILY_API_KEY": "k"}, "https://api.tavily.com/search"),
        ({}, {}, "https://html.duckduckgo.com/html/"),
        ({"search": "tavily"}, {"BRAVE_API_KEY": "k", "TAVILY_API_KEY": "k"}, "https://api.tavily.com/search"),
        ({"search": "searxng", "search_url": "http://localhost:8080/"}, {}, "http://localhost:8080/search"),
        ({"search": "searxng", "search_url": "https://s.example/search"}, {}, "https://s.example/search"),
    ],
)
def test_the_provider_is_who_is_named_or_who_has_a_key(
    bench: Bench, settings: dict[str, str], env: dict[str, str], endpoint: str
) -> None:
    bench.ctx.settings["web"], bench.ctx.env = settings, env
    tool = TOOLS["WebSearch"]
    assert tool.available(bench.ctx)
    assert tool.effects(bench.args("WebSearch", {"query": "x"}), bench.ctx) == (Effect("fetch", endpoint),)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"search": "brave"}, "BRAVE_API_KEY is not set"),
        ({"search": "searxng"}, "search_url under [web] is not set"),
        ({"search": "searxng", "search_url": "nonsense"}, "cannot be fetched"),
    ],
)
def test_without_a_set_up_the_tool_is_not_offered_and_says_what_is_missing(
    bench: Bench, settings: dict[str, str], words: str
) -> None:
    bench.ctx.settings["web"], bench.ctx.env = settings, {}
    assert not TOOLS["WebSearch"].available(bench.ctx)
    assert words in bench.fails("WebSearch", query="x")


def test_the_real_program_says_whom_it_asks(work: Path) -> None:
    plain = agent(["tools", "run", "WebSearch", '{"query": "x"}'], work)
    assert "sends a request to https://html.duckduckgo.com/html/" in plain.stderr
    denied = agent(["tools", "run", "WebSearch", '{"query": "x"}'], work, {"BRAVE_API_KEY": "k"})
    assert "sends a request to https://api.search.brave.com/res/v1/web/search" in denied.stderr
    with WebServer({"/search": ANSWERS["searxng"][1]}) as server:
        settings = json.dumps({"web": {"search": "searxng", "search_url": server.url("")}})
        options = ["--settings", settings, "--allowedTools", "WebSearch"]
        found = agent(["tools", "run", "WebSearch", '{"query": "x"}', *options], work)
    assert "1. The first & best" in found.stdout


# DuckDuckGo.


class Engine(ModuleType):
    """Stands in for the package ddgs, which would ask the network."""

    class DDGSException(Exception):  # noqa: N818 - the package names it
        pass

    def __init__(self, outcome: Any) -> None:
        super().__init__("ddgs")
        self.outcome = outcome
        self.made: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.begun = threading.Event()
        self.over = threading.Event()

    def DDGS(self, **options: Any) -> Engine:  # noqa: N802 - its name there
        self.made = options
        return self

    def text(self, query: str, **options: Any) -> Any:
        self.asked = {"query": query, **options}
        self.begun.set()
        if self.outcome is None:
            self.over.wait(10)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def duck(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bench that searches by DuckDuckGo, whose answer is given."""
    bench.ctx.settings["web"] = {"search": "duckduckgo", "timeout": 20.0}
    bench.ctx.env = {"HTTPS_PROXY": "http://proxy.example:3128"}

    def put(outcome: Any) -> Engine:
        engine = Engine(outcome)
        monkeypatch.setitem(sys.modules, "ddgs", engine)
        monkeypatch.setitem(sys.modules, "ddgs.exceptions", engine)
        return engine

    return put


def test_duckduckgo_is_asked_by_its_package(bench: Bench, duck: Any) -> None:
    engine = duck([{"title": "T", "href": "https://a.example/", "body": "B"}])
    assert "1. T\n   https://a.example/\n   B\n" in bench("WebSearch", query="x", blocked_domains=["b.example"]).text
    assert engine.made == {"proxy": "http://proxy.example:3128", "timeout": 10}
    assert engine.asked == {"query": "x -site:b.example", "max_results": 20, "backend": "duckduckgo"}


def test_duckduckgo_with_nothing_and_with_a_failure(bench: Bench, duck: Any) -> None:
    duck(Engine.DDGSException("No results found."))
    assert "Nothing was found" in bench("WebSearch", query="x").text
    duck(Engine.DDGSException("202 Ratelimit\nsomewhere"))
    assert bench.fails("WebSearch", query="x") == (
        "DuckDuckGo did not answer: 202 Ratelimit\\nsomewhere. Continue without, or wait a while."
    )


def test_duckduckgo_without_its_package(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    assert "pip install ddgs" in bench.fails("WebSearch", query="x")


def test_duckduckgo_that_hangs_is_left_behind(bench: Bench, duck: Any) -> None:
    engine = duck(None)
    args = bench.args("WebSearch", {"query": "x"})

    def search(token: Any) -> None:
        bench.ctx.cancel = token
        TOOLS["WebSearch"].run(args, bench.ctx)

    assert cancelled_within(search, lambda: engine.begun.wait(5)) < PROMPT
    bench.ctx.cancel = type(bench.ctx.cancel)()
    bench.ctx.settings["web"]["timeout"] = 0.2
    assert "took longer than 0.2 s" in bench.fails("WebSearch", query="x")
    engine.over.set()
