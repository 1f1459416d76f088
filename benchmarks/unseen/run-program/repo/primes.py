import sys

last = int(sys.argv[1])
for n in range(2, last):
    if all(n % d for d in range(2, n)):
        print(n * 7)
