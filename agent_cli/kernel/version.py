"""The version of the program, and its name in the package index."""

__version__ = "0.1.0"

# The distribution, and the second name of the command.
PACKAGE = "agent-at-hand"

# The version of Claude Code whose output and requests ours follow, for clients that ask.
CLAUDE_CODE_VERSION = "2.1.240"
