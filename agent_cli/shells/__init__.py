"""Where users and programs drive a session: the terminal, one-shot runs, and the Python API."""
