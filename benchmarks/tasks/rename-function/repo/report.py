"""Prints a bill."""

from cart import calc, names

ITEMS = [("apple", 2, 10), ("bread", 3, 1), ("milk", 1, 4)]


def bill(items):
    """Return the text of a bill."""
    return f"{', '.join(names(items))}: {calc(items)}"


if __name__ == "__main__":
    print(bill(ITEMS))
