from greet import greet

print(greet("World"))
