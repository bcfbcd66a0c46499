# -*- coding: utf-8 -*-
import time


def nap():
    time.sleep(100000)


nap()
