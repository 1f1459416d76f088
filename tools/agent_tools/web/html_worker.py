"""`python -m agent_tools.web.html_worker URL`: read HTML from stdin; write title, a line end and text to stdout.

It is a separate process, because a page of 30 KB can keep an HTML parser busy for minutes and use gigabytes (each
paragraph reopens elements that an earlier one left open), and compiled code cannot be interrupted. Here the system
limits both, and the process has nothing but the page: no key, no file, no conversation.
"""

from __future__ import annotations

import contextlib
import sys

from agent_tools.web.html import to_markdown

SECONDS = 20
MEMORY = 1_000_000_000


def main(url: str) -> None:
    """Convert stdin. Any failure ends the process with a nonzero code."""
    with contextlib.suppress(ImportError):
        import resource

        for what, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
            with contextlib.suppress(ValueError, OSError):  # a lower limit is set, or the system has none
                resource.setrlimit(what, (most, most))
    title, text = to_markdown(sys.stdin.buffer.read().decode("utf-8", "replace"), url)
    sys.stdout.buffer.write(f"{title}\n{text}".encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
