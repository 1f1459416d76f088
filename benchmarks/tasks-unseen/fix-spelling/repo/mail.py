def receive():
    return []
