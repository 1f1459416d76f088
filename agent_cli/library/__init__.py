"""The Python API: `session` is its class."""
