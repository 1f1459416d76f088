from shop import mail

mail.send_mail("a@example.org", "Please pay.")
