def send_mail(to, text):
    print(to, text)
