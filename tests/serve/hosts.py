"""Hosts: each a network, pid, mount and uts namespace of its own, joined by a bridge; a cable can be pulled."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
from pathlib import Path

import serving

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def run(*argv: str) -> str:
    result = subprocess.run(argv, capture_output=True, text=True)
    assert result.returncode == 0, f"{argv}: {result.stderr}"
    return result.stdout


@contextlib.contextmanager
def inside(path: str):
    """This thread's sockets are made in another network."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(path, os.O_RDONLY)
    try:
        assert libc.setns(other, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert libc.setns(own, CLONE_NEWNET) == 0
        os.close(own)
        os.close(other)


class Host:
    def __init__(self, network: Network, number: int) -> None:
        self.network = network
        self.number = number
        self.name = f"node{number}"
        self.ip = f"10.77.0.{number}"
        # unshare's child is the first process of the host: all die with it.
        self.process = subprocess.Popen(
            [
                "unshare",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--mount",
                "--uts",
            ]
            + [
                "sh",
                "-c",
                f"hostname {self.name}; ip link set lo up; echo up; exec sleep infinity",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        serving.read_line(self.process, self.name)
        self.init = int(
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text()
            .split()[0]
        )

    def enter(self) -> tuple[str, ...]:
        return ("nsenter", "-t", str(self.init), "-a", "--")

    def run(self, *argv: str) -> str:
        return run(*self.enter(), *argv)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Network:
    """`count` hosts on one wire."""

    def __init__(self, count: int) -> None:
        self.hub = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up; echo up; exec sleep infinity"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        serving.read_line(self.hub, "the bridge")
        self.at_hub("ip", "link", "add", "wire", "type", "bridge")
        self.at_hub("ip", "addr", "add", "10.77.0.254/24", "dev", "wire")
        self.at_hub("ip", "link", "set", "wire", "up")
        self.hosts = [Host(self, n) for n in range(1, count + 1)]
        for host in self.hosts:
            port = f"port{host.number}"
            self.at_hub(
                "ip",
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(host.init),
            )
            self.at_hub("ip", "link", "set", port, "master", "wire", "up")
            host.run("ip", "addr", "add", f"{host.ip}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")

    def at_hub(self, *argv: str) -> str:
        return run("nsenter", "-t", str(self.hub.pid), "-n", "--", *argv)

    def pull(self, host: Host) -> None:
        """The cable, in the middle of whatever is on it."""
        self.at_hub("ip", "link", "set", f"port{host.number}", "nomaster")

    def plug(self, host: Host) -> None:
        self.at_hub("ip", "link", "set", f"port{host.number}", "master", "wire")

    def socket_path(self) -> str:
        return f"/proc/{self.hub.pid}/ns/net"

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        self.hub.kill()
        self.hub.wait()
        self.hub.stdout.close()


class HostServer(serving.Server):
    """scry serve on a host; asked from the wire."""

    def __init__(self, scry: str, host: Host, folder: Path, *options: str) -> None:
        super().__init__(
            scry, folder, "--listen", host.ip, *options, command=host.enter(), port=8266
        )
        self.at = host

    def connect(self, timeout: float = serving.PATIENCE):
        connection = super().connect(timeout)
        with inside(self.at.network.socket_path()):
            connection.connect()
        return connection

    def send(self, number: int) -> None:
        # nsenter waits for its child, which is scry.
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in task.read_text().split():
            os.kill(int(pid), number)


def missing() -> str | None:
    """Why there can be no hosts here; None when there can."""
    if os.geteuid() != 0:
        return "namespaces of hosts need root"
    probe = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--mount-proc", "ip", "link"], capture_output=True
    )
    if probe.returncode != 0:
        return f"this machine does not let us make namespaces: {probe.stderr.decode()[:200]}"
    return None


def pid_in(process_pid: int) -> int:
    """The number a process has in its own namespace."""
    status = Path(f"/proc/{process_pid}/status").read_text()
    return int(re.search(r"^NSpid:.*?(\d+)$", status, re.M)[1])
