"""An adapter for the Harbor evaluation harness; see README.md here."""
