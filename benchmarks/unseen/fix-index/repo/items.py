def first(items):
    return items[0]


def last(items):
    return items[len(items)]
