from shop.mail import send_mail


def order(user):
    send_mail(user, "Thank you.")
