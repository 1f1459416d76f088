"""Export a session as markdown, HTML or JSON."""
