"""A worker of a made-up training job: one thread works, five wait for the same queue, one for a socket. SIGUSR1
makes it work differently: what was mostly `forward` becomes mostly `backward`."""

import queue
import signal
import socket
import sys
import threading

share = {"forward": 6, "backward": 1}


def forward(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def backward(n):
    total = 0
    for i in range(n):
        total ^= i * 3
    return total


def train_step():
    for _ in range(share["forward"]):
        forward(8000)
    for _ in range(share["backward"]):
        backward(8000)


def wait_for_batch(batches):
    batches.get()


def wait_for_orders(line):
    line.recv(1)


def change(*_):
    share.update(forward=1, backward=6)


def main():
    signal.signal(signal.SIGUSR1, change)
    batches, (near, far) = queue.Queue(), socket.socketpair()
    for i in range(5):
        threading.Thread(target=wait_for_batch, args=(batches,), name=f"loader-{i}", daemon=True).start()
    name = sys.argv[1] if len(sys.argv) > 1 else "orders"
    threading.Thread(target=wait_for_orders, args=(near,), name=name, daemon=True).start()
    print("ready", flush=True)
    while far:
        train_step()


main()
