"""Two network namespaces of this machine with a link between them whose rate and latency can be chosen.

The rate is limited by a token bucket (tc's tbf) at either end. A latency needs more than every kernel has (netem), so there
the ends are TUN devices, and a process of this program carries packets from one to the other when their time has come.
Needs the right to make namespaces; removes them at its end.
"""

import collections
import ctypes
import fcntl
import multiprocessing
import os
import select
import struct
import subprocess
import time

# Named after this process, so that two benches do not remove each other's.
SPACES = {f"cleave-a{os.getpid()}": (f"cleave-a{os.getpid()}", "10.199.7.1"),
          f"cleave-b{os.getpid()}": (f"cleave-b{os.getpid()}", "10.199.7.2")}
PACKET = 9000  # bytes; smaller ones cost this program more of a processor
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def sh(command):
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr.strip()}")


def open_tun(space, link):
    """A TUN device in a namespace; what is read from it left the namespace, what is written comes in."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as home, open(f"/var/run/netns/{space}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {space}")
        try:
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", link.encode(), IFF_TUN | IFF_NO_PI))
        finally:
            libc.setns(home.fileno(), CLONE_NEWNET)
    return device


def carry(ends, seconds):
    """Until it is ended."""
    on_their_way = {end: collections.deque() for end in ends}  # to this end: (due, packet)
    other = dict(zip(ends, reversed(ends)))
    while True:
        now = time.monotonic()
        next_due = min((queue[0][0] for queue in on_their_way.values() if queue), default=now + 1)
        ready, _, _ = select.select(ends, [], [], max(0, next_due - now))
        due = time.monotonic() + seconds
        for end in ready:
            try:
                while True:
                    on_their_way[other[end]].append((due, os.read(end, PACKET + 64)))
            except BlockingIOError:
                pass
        now = time.monotonic()
        for end, queue in on_their_way.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(end, queue.popleft()[1])
                except OSError:
                    pass  # the other end is being removed; TCP sends again what it misses


class SlowNetwork:
    """`latency`: seconds that a packet takes one way; 0: a pair of virtual devices, and no process between them."""

    def __init__(self, mbit, latency):
        self._carrier = None
        self.remove()
        for space in SPACES:
            sh(f"ip netns add {space}")
        links = [link for link, _ in SPACES.values()]
        if latency == 0:
            sh(f"ip link add {links[0]} type veth peer name {links[1]}")
            for space, (link, _) in SPACES.items():
                sh(f"ip link set {link} netns {space}")
        else:
            ends = [open_tun(space, link) for space, (link, _) in SPACES.items()]
            self._carrier = multiprocessing.Process(target=carry, args=(ends, latency), daemon=True)
            self._carrier.start()
            for end in ends:
                os.close(end)
        for (space, (link, address)), (_, peer) in zip(SPACES.items(), reversed(SPACES.values())):
            sh(f"ip -n {space} link set lo up")
            if latency == 0:
                sh(f"ip -n {space} addr add {address}/24 dev {link}")
            else:
                sh(f"ip -n {space} link set {link} mtu {PACKET}")
                sh(f"ip -n {space} addr add {address} peer {peer} dev {link}")
            sh(f"ip -n {space} link set {link} up")
            # A bucket of 2 ms, or of a few packets: larger ones hide the rate from short messages.
            burst = max(4000 if latency == 0 else 2 * PACKET, int(mbit * 1e6 / 8 * 0.002))
            sh(f"ip netns exec {space} tc qdisc replace dev {link} root tbf rate {mbit}mbit burst {burst} latency 400ms")

    @staticmethod
    def prefix(space):
        """Of a command that runs in the first or second of the namespaces."""
        return ["ip", "netns", "exec", list(SPACES)[space]]

    @staticmethod
    def address(space):
        return list(SPACES.values())[space][1]

    def remove(self):
        if self._carrier is not None:
            self._carrier.terminate()
            self._carrier.join()
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
