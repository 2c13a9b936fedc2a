#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SSH servers that are none: each on a port of its own, until it is killed.

  hosts.py CONFIG SEED [NAME...]     adds a Host for each of MANNERS to CONFIG (~/.ssh/config), in one piece, then
                                     says "ready"; with NAMEs only these
"""
import os
import random
import socket
import struct
import sys
import threading
import time

dice = random.Random(int(sys.argv[2]))
GREETING = b"SSH-2.0-OpenSSH_9.2\r\n"


def silent(c):
    time.sleep(1000)


def hangs_up(c):
    pass


def hangs_up_after_greeting(c):
    c.sendall(GREETING)
    c.recv(1000)


def stops_after_greeting(c):
    c.sendall(GREETING)
    time.sleep(1000)


def endless_banner(c):
    """Lines before the greeting are allowed; these have no end."""
    while True:
        c.sendall(b"welcome to this machine, and mind the step\r\n" * 100)


def endless_line(c):
    while True:
        c.sendall(b"x" * 65536)


def drips(c):
    """A byte now and then: no silence, and no end."""
    for byte in GREETING + bytes(1000):
        c.sendall(bytes([byte]))
        time.sleep(1)


def old_protocol(c):
    c.sendall(b"SSH-1.5-1.2.27\n")
    time.sleep(1000)


def another_protocol(c):
    c.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    c.recv(1000)


def noise(c):
    c.sendall(GREETING + dice.randbytes(20000))
    time.sleep(1000)


def huge_packet(c):
    c.sendall(GREETING + struct.pack(">IB", 0xfffffff0, 4) + bytes(1000))
    time.sleep(1000)


def strange_algorithms(c):
    """A KEXINIT whose lists are of nothing, of no length, or too long."""
    lists = [b"none", b"", b"x" * 3000, b"," * 500] + [b"none"] * 6
    body = bytes([20]) + bytes(16) + b"".join(struct.pack(">I", len(x)) + x for x in lists) + bytes(5)
    pad = 8 - (len(body) + 5) % 8 + 8
    c.sendall(GREETING + struct.pack(">IB", len(body) + pad + 1, pad) + body + bytes(pad))
    time.sleep(1000)


def control_characters(c):
    c.sendall(b"SSH-2.0-\x1b[2J\x1b]0;owned\x07%s%n\r\n")
    c.recv(1000)


MANNERS = [silent, hangs_up, hangs_up_after_greeting, stops_after_greeting, endless_banner, endless_line, drips,
           old_protocol, another_protocol, noise, huge_packet, strange_algorithms, control_characters]


def serve(listener, manner):
    def one(c):
        try:
            manner(c)
        except OSError:
            pass
        c.close()
    while True:
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


def main():
    text = ""
    for manner in MANNERS:
        name = manner.__name__.replace("_", "-")
        if not sys.argv[3:] or name in sys.argv[3:]:
            listener = socket.create_server(("127.0.0.1", 0))
            text += "Host %s\n  HostName 127.0.0.1\n  Port %d\n" % (name, listener.getsockname()[1])
            threading.Thread(target=serve, args=(listener, manner), daemon=True).start()
    with open(sys.argv[1], "a") as f:
        f.write(text)
    print("ready", flush=True)
    while os.getppid() != 1:
        time.sleep(1)


main()
