"""Protocols, pages and runs built on sessions, each of which may be left out."""
