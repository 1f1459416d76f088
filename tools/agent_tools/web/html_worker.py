"""`python -m agent_tools.web.html_worker URL`: read HTML from stdin; write title, a line end and markdown to stdout.

The markdown is the main content, without navigation and hidden text. Hidden text is removed because it is the easiest
way to inject instructions into a page. This is a mitigation, not a security boundary: a style sheet can hide text in
ways that are not detected here.

It is a separate process, because a page of 30 KB can keep an HTML parser busy for minutes and use gigabytes (each
paragraph reopens elements that an earlier one left open), and compiled code cannot be interrupted. Here the system
limits both, and the process has nothing but the page: no key, no file, no conversation.
"""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_NON_CONTENT = (
    "script, style, noscript, template, iframe, frame, object, embed, svg, canvas, audio, video, link, meta, button, "
    "input, select, textarea, option, datalist, dialog"
)
_HIDDEN_SELECTOR = "[hidden], [aria-hidden='true' i], .sr-only, .visually-hidden, .screen-reader-text, .d-none"
# An inline style that hides, with whitespace and comments removed.
_HIDING_STYLE = (
    r"display:none|visibility:(?:hidden|collapse)|(?:opacity|font-size):0(?:\.0*)?(?:[a-z%]+)?(?:!important)?(?:;|$)"
    r"|(?:left|top|text-indent):-\d{3,}|clip:rect\(0|clip-path:inset\((?:50|100)%|(?:^|;)color:transparent"
)
_BOILERPLATE = (
    "nav, footer, aside, body > header, [role='navigation'], [role='banner'], [role='contentinfo'], [role='search'], "
    "[role='dialog'], [role='alertdialog'], [role='complementary'], [id*='cookie-' i], [class*='cookie-' i], "
    "[id^='cookie' i][id*='banner' i], [class*='cookiebanner' i], [class*='cookieconsent' i], [id*='onetrust' i], "
    "[id*='cookiebot' i], [class*='consent-banner' i], [class*='gdpr' i]"
)
_MAIN_SELECTORS = ("main", "[role='main']", "article")
# A main part with less text than this is not used.
_MIN_MAIN_CHARS = 200
# Share of the page's text that its main part must have to be used instead of the whole.
_MIN_MAIN_SHARE = 0.3
# Links that are useless in a text.
_USELESS_LINKS = ("#", "javascript:", "data:", "vbscript:", "about:")
# More is never shown, and a base address can make a small page large.
_MAX_MARKDOWN_CHARS = 5_000_000


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """Return the title of a page, and its main content as markdown. url: base of its relative links.

    Time and memory are not limited here: a page may attack the parser.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    named = tree.css_first("title")
    title = " ".join(named.text().split())[:300] if named is not None else ""
    base = _base(tree.css_first("base[href]"), url)
    _drop(tree.css(_NON_CONTENT))
    _drop(tree.css(_HIDDEN_SELECTOR))
    _drop([node for node in tree.css("[style]") if _hides(node.attributes.get("style") or "")])
    _simplify(tree)
    whole = tree.body.html if tree.body is not None else None
    _drop(tree.css(_BOILERPLATE))
    part = _find_main(tree)
    main = part.html if part is not None and _text_length(part) >= _MIN_MAIN_CHARS else whole
    options = ConversionOptions(
        extract_metadata=False,
        autolinks=False,
        highlight_style="none",
        base_url=base,
        # It would remove forms and menus, which are the only content of some pages.
        preprocessing=PreprocessingOptions(enabled=False),
    )
    return title, (convert(main or "", options).content or "").strip()[:_MAX_MARKDOWN_CHARS]


def _drop(nodes: list[LexborNode]) -> None:
    for node in nodes:
        if node.tag not in ("html", "body"):
            node.decompose()


def _hides(style: str) -> bool:
    plain = re.sub(r"\s|/\*.*?\*/", "", style.lower(), flags=re.DOTALL)
    return re.search(_HIDING_STYLE, plain) is not None


def _simplify(tree: LexborHTMLParser) -> None:
    """Replace useless links by their text, and images by their alternative text."""
    for link in tree.css("a[href]"):
        if (link.attributes.get("href") or "").strip().lower().startswith(_USELESS_LINKS):
            # Drop the symbol that links a heading to itself.
            link.unwrap() if len(link.text(strip=True)) > 1 else link.decompose()
    for image in tree.css("img"):
        words = " ".join((image.attributes.get("alt") or "").split())
        if words:
            image.replace_with(f"[image: {words}]")
        else:
            image.decompose()


def _find_main(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the element with the main content, or the body."""
    body = tree.body
    if body is None:
        return None
    least = max(_text_length(body) * _MIN_MAIN_SHARE, 1)
    found = (tree.css(selector) for selector in _MAIN_SELECTORS)
    return next((nodes[0] for nodes in found if len(nodes) == 1 and _text_length(nodes[0]) >= least), body)


def _text_length(node: LexborNode) -> int:
    return len("".join(node.text().split()))


def _base(base: LexborNode | None, url: str) -> str:
    from urllib.parse import urljoin

    try:
        joined = urljoin(url, (base.attributes.get("href") or "") if base is not None else "")
    except ValueError:
        return url
    return joined if joined.startswith(("http://", "https://")) and len(joined) < 1000 else url


MAX_CPU_SECONDS = 20
MAX_MEMORY_BYTES = 1_000_000_000


def main(url: str) -> None:
    """Convert stdin. Any failure ends the process with a nonzero code."""
    with contextlib.suppress(ImportError):
        import resource

        for what, most in (
            (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
            (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            with contextlib.suppress(ValueError, OSError):  # a lower limit is set, or the system has none
                resource.setrlimit(what, (most, most))
    title, text = to_markdown(sys.stdin.buffer.read().decode("utf-8", "replace"), url)
    sys.stdout.buffer.write(f"{title}\n{text}".encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
