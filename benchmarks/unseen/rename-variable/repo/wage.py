RATE = 20

h = 38
pay = RATE * h
if h > 40:
    pay += (h - 40) * RATE
print(pay)
