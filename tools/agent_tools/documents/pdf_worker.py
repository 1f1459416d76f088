"""Extract the text of PDF pages in a separate process: `pdf_worker.py FIRST MOST`, with the document on stdin.

An untrusted PDF can make a parser use unlimited time and memory; a process can be limited in both. It writes JSON, one
value per line: first the number of pages, or an object with the `error`, then each page's text, null if it is
unreadable. It imports nothing of this package, so that it starts quickly.
"""

from __future__ import annotations

import io
import json
import sys

MAX_MEMORY_BYTES = 2_000_000_000
MAX_CPU_SECONDS = 60
# Protects against malicious documents; a page of prose has about 3,000.
MAX_PAGE_CHARS = 50_000


def main(first: int, most: int) -> None:
    """Write the number of pages, and the text of at most `most` pages from page `first`, which counts from 1."""
    limit_resources()
    data = sys.stdin.buffer.read()
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(data))
        # Many documents are encrypted with an empty password, which every viewer tries.
        if reader.is_encrypted and not reader.decrypt(""):
            return send_line({"error": "encrypted"})
        total = len(reader.pages)
    except Exception as error:  # noqa: BLE001 - a broken document can raise anything
        encrypted = type(error).__name__ == "DependencyError"
        return send_line({"error": "encrypted" if encrypted else str(error)[:200] or type(error).__name__})
    send_line(total)
    for number in range(first - 1, min(total, first - 1 + most)):
        try:
            send_line(reader.pages[number].extract_text()[:MAX_PAGE_CHARS])
        except Exception:  # noqa: BLE001 - as above; other pages may be readable
            send_line(None)
    return None


def limit_resources() -> None:
    """Limit the time and memory of this process, if the system supports it."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    except (ImportError, OSError, ValueError):
        return


def send_line(value: object) -> None:
    """Write one line of output."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
