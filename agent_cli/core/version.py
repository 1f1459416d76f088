"""The version of the program."""

__version__ = "0.1.0"

# The version of Claude Code whose output and requests ours follow, for clients that ask.
CLAUDE_CODE_VERSION = "2.1.240"
