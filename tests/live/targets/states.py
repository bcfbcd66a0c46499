"""Threads that wait, each for something else, and two that work.

Every thread ends in one line that first signals and then blocks, so there is a moment in which it has arrived
but does not wait yet; the test looks at /proc until each one does.
"""
import os
import select
import socket
import time

from report import HOLD, OUT, Thread, here

try:
    import _thread
except ImportError:
    import thread as _thread

LISTENER = socket.socket()
LISTENER.bind(("127.0.0.1", 0))
LISTENER.listen(5)
CLIENT = socket.create_connection(LISTENER.getsockname())
SERVER = LISTENER.accept()[0]
UNIX = socket.socketpair()
UDP = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
UDP.bind(("127.0.0.1", 0))
LOCK = _thread.allocate_lock()
LOCK.acquire()
SECONDS = 100000


def lock(arrived):
    arrived(), LOCK.acquire()


def read_pipe(arrived):
    arrived(), os.read(HOLD, 1)


def recv_tcp(arrived):
    arrived(), CLIENT.recv(1)


def recv_unix(arrived):
    arrived(), UNIX[0].recv(1)


def recv_udp(arrived):
    arrived(), UDP.recv(1)


def accept(arrived):
    arrived(), LISTENER.accept()


def sleep(arrived):
    arrived(), time.sleep(SECONDS)


def select_select(arrived):
    arrived(), select.select([CLIENT], [], [])


def select_poll(arrived):
    poll = select.poll()
    poll.register(CLIENT, select.POLLIN)
    arrived(), poll.poll()


def select_epoll(arrived):
    epoll = select.epoll()
    epoll.register(CLIENT.fileno(), select.EPOLLIN)
    arrived(), epoll.poll()


WAITS = [
    lock,
    read_pipe,
    recv_tcp,
    recv_unix,
    recv_udp,
    accept,
    sleep,
    select_select,
    select_poll,
    select_epoll,
]


def address(sock):
    return "%s:%d" % sock.getsockname()[:2]


for wait in WAITS:
    Thread(wait.__name__, wait, name=wait.__name__).wait_until_parked()
os.write(OUT, here(peer=address(SERVER), listener=address(LISTENER), udp=address(UDP))), os.read(HOLD, 1)
os._exit(0)
