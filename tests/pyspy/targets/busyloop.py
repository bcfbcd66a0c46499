def busy():
    n = 0
    while True:
        n += 1


busy()
