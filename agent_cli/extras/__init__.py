"""Pages, runs, reports and gates that are built on sessions, each of which may be left out."""
