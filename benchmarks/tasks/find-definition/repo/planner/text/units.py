"""Quantities as people write them."""

MINUTES = {"m": 1, "h": 60, "d": 1440}


def parse_count(text):
    """Return a number such as 1,000."""
    return int(text.replace(",", ""))


def parse_duration(text):
    """Return the minutes of a duration such as 90m or 2h."""
    return parse_count(text[:-1]) * MINUTES[text[-1]]
