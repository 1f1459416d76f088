# The order sends the mail.
def add(cart, item):
    cart.append(item)
