def total_price(prices):
    return sum(prices)
