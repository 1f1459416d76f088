"""Limits of the client."""

TIMEOUT = 30
MIN_RETRIES = 1

PAUSE = 0.5
