import shapes

print(shapes.area(4, 5))
