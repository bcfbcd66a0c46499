# cython: language_level=3

cdef double inner(double x) noexcept:
    cdef double total = 0
    cdef int i
    for i in range(2000):
        total += x * i
    return total


def work(function, int count):
    cdef double total = 0
    cdef int i
    for i in range(count):
        total += inner(i)
        if i % 100 == 0:
            function(i)
    return total
