"""Where users and programs drive a session: the terminal, one-shot runs, editors, and programs that host it."""
