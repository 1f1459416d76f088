# It used to import json.
from app.store import load


def show(text):
    print(load(text))
