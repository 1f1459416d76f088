"""Small statistics."""


def mean(values):
    """Return the mean of a list of numbers."""
    return sum(values) / len(values)


def median(values):
    """Return the middle of a list of numbers: of two middle ones, their mean."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle] + ordered[middle]) / 2
