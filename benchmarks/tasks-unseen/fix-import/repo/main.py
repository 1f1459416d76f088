from prices import total_prize

print(total_prize([10, 2.5]))
