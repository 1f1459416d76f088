"""`python -m agent_tools.web.html_worker URL`: a page's HTML on stdin; its title, a line end, and its text on stdout.

A process of its own, because a page of some 30 KB can keep an HTML parser busy for minutes and in gigabytes (each
paragraph opens again what an earlier one left open), and the parser is compiled code that nothing can interrupt. Here
the system bounds both, and nothing but the page is at hand: no key, no file, no conversation.
"""

from __future__ import annotations

import contextlib
import sys

from agent_tools.web.html import to_markdown

SECONDS = 20
MEMORY = 1_000_000_000


def main(url: str) -> None:
    """Convert what comes. Any failure ends the process with another code than 0."""
    with contextlib.suppress(ImportError):
        import resource

        for what, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
            with contextlib.suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
                resource.setrlimit(what, (most, most))
    title, text = to_markdown(sys.stdin.buffer.read().decode("utf-8", "replace"), url)
    sys.stdout.buffer.write(f"{title}\n{text}".encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
