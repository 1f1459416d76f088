"""Names for addresses of pages."""


def slugify(title):
    """Return a title as part of an address: small letters, and dashes for spaces."""
    return "-".join(title.lower().split())
