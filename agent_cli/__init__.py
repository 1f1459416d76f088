"""agent: an interactive terminal coding agent. Importing this package does nothing."""

__version__ = "0.1.0"
