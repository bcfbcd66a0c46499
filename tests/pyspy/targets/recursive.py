def down(left):
    if left:
        down(left - 1)


while True:
    down(20)
