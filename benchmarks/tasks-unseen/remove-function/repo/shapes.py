def area(width, height):
    return width * height


def old_area(size):
    width, height = size
    return width * height


def edge(width, height):
    return 2 * (width + height)
