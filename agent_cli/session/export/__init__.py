"""A session as a document: read from its records, written as markdown, a page, or JSON."""
