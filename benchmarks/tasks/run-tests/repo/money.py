"""Amounts of money as text."""


def show(cents):
    """Return an amount as text, as in 12.34."""
    return f"{cents // 100}.{cents % 100:02d}"


def parse(text):
    """Return the cents of an amount such as 12.34 or 12."""
    whole, _, part = text.partition(".")
    return int(whole) * 100 + int(part or 0)
