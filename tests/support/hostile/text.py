"""Text that would steer a terminal or hide what it is."""

from __future__ import annotations

from hypothesis import strategies as st

HOSTILE = st.lists(
    st.sampled_from([
        "\x1b", "\x1b[2J", "\x1b[5m", "\x1b]0;t\x07", "\x1b]52;c;eA==\x07", "\x1b]8;;http://x\x1b\\", "\x9b31m", "\x07",
        "\x08", "\r", "\x7f", "\x90", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\U000e0041", "\x85", "\x0b",
        "&#x202e;", "&#27;", "&#155;", "&#10;", "&ZeroWidthSpace;", "[a](http://x/\x1b)", "<http://x/\u202e>", "[red]",
        "![i](x\x07y)", "```py\n", "```\n", "`", "**", "- ", "1. ", "> ", "# ", "| a | b |\n|---|---|\n", "|", "\n",
        "\t", "word", " ", "+", "-", "@@ -1 +1 @@\n", "🙂", "日本", "\ud800", "=", '"""', "'", "{", "<b>",
    ]),
    max_size=25,
).map("".join)  # fmt: skip
