"""The contents of a shopping cart."""


def calc(items):
    """Return the price of all items together."""
    return sum(price * count for _, price, count in items)


def names(items):
    """Return the names of the items."""
    return [name for name, _, _ in items]
