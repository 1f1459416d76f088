print("started")
