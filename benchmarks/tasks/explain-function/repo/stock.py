"""How much of a product to order."""

SAFETY = 25
PACK = 12


def order_size(weekly_sales, weeks):
    """Return how many pieces to order, in whole packs."""
    needed = weekly_sales * weeks + SAFETY
    packs = needed // PACK
    if needed % PACK:
        packs += 1
    return packs * PACK


def is_low(in_stock, weekly_sales):
    """Return whether less than a week's sales are left."""
    return in_stock < weekly_sales
