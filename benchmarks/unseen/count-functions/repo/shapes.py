import math


def square(a):
    return a * a


def circle(r):
    return math.pi * r * r


def ring(outer, inner):
    def area(r):
        return circle(r)

    return area(outer) - area(inner)


UNIT = square(1)
