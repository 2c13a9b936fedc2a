#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile frames at the living processes: a daemon at an agent, an agent at the daemon.

  frames.py WORK SEED CASES     JOBCTL_HOME and PATH as for every command

CASES streams (see STREAMS) are spoken to the agent of a running job, as its daemon would, then as many to the daemon,
by a program that has the lock, the identity and the socket of an agent that died. In between the daemon must answer,
and another job must run on. When the hostile agent ends, its job begins again with an agent of ours, and succeeds.
tests/fuzz/fuzz_frame.c has the reader of frames alone.
"""
import fcntl
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time

import invariants
from invariants import Broken, ask, note, run

WORK, SEED, CASES = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
HOME = os.environ["JOBCTL_HOME"]
FRAME = struct.Struct("<IHH")       # length of the body, wire version, message number
WIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../agent/wire/wire.h")
with open(WIRE, encoding="utf-8") as header:
    VERSION = int(re.search(r"WIRE_VERSION = ([0-9]+)", header.read())[1])
HELLO, EVENT, HEARTBEAT, LOG, AGENT_GONE, KEEPALIVE, LISTENING = 1, 2, 3, 4, 5, 6, 8
LAUNCH, ACK, STOP, CHECKPOINT, ATTACH, NODE_GONE = 33, 34, 35, 36, 37, 38
END_S = 60 * int(os.environ.get("TEST_PATIENCE", "1"))
ANSWER_S = 10 * int(os.environ.get("TEST_PATIENCE", "1"))


def frame(number, body, version=VERSION, length=None):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return FRAME.pack(len(text) if length is None else length, version, number) + text


def until(what, so, limit=END_S):
    end = time.monotonic() + limit
    while not so():
        if time.monotonic() > end:
            raise Broken("not within %d s: %s" % (limit, what))
        time.sleep(0.02)


class Peer:
    """What the hostile side knows: the attempt, and whom it speaks to."""

    def __init__(self, who, dice, to_daemon):
        self.id = {key: who[key] for key in ("job", "attempt", "nonce")}
        self.who, self.dice, self.to_daemon = who, dice, to_daemon
        self.seq = 1 << 40      # far above what the real agent said: nothing of it is what the daemon waits for

    def hello(self, **other):
        return frame(HELLO, dict({**self.id, "node": "hostile", "boot_id": self.who["boot_id"], "pid": os.getpid(),
                                  "start_time": self.who["start_time"], "incarnation": self.who["incarnation"],
                                  "version": self.who["version"], "launched": True, "first_seq": 0, "last_seq": 0,
                                  "facts": {}, "wall_ms": int(time.time() * 1000)}, **other))

    def event(self, seq=None, kind="warning", body=None, **other):
        return frame(EVENT, dict({**self.id, "incarnation": self.who["incarnation"],
                                  "seq": self.seq if seq is None else seq, "mono_ns": 1, "wall_ms": 1, "kind": kind,
                                  "body": {"rank": 0, "text": "hostile"} if body is None else body}, **other))

    def beat(self, **other):
        return frame(HEARTBEAT, dict({**self.id, "generation": 1, "state": "running", "step": None, "steps": None,
                                      "phase": "", "loss": None, "lr": None, "samples_per_s": None, "ranks_alive": 1,
                                      "step_ms": None}, **other))

    def greeting(self):
        return self.hello() if self.to_daemon else b""

    def number(self):
        return self.dice.choice([EVENT, HEARTBEAT, LOG, KEEPALIVE] if self.to_daemon else
                                [LAUNCH, ACK, STOP, CHECKPOINT])

    def any(self):
        """A frame that is right."""
        if self.to_daemon:
            return self.dice.choice([self.event(), self.beat(), frame(KEEPALIVE, self.id)])
        return self.dice.choice([frame(CHECKPOINT, self.id), frame(ACK, {**self.id, "seq": 0})])


NUMBERS = [-1, 0, 1, 2**31, 2**53, 2**63 - 1, -2**63]
STRANGE = [None, True, 1.5e300, "", "\0", "x" * 3000, [], {}, [[]] * 50, {"a": {"b": {}}}, "\u202e%s%n", "../../etc",
           -2**63]


def noise(p):
    return p.dice.randbytes(p.dice.randrange(1, 4096))


def wrong_length(p):
    return p.greeting() + frame(p.number(), p.id, length=p.dice.choice([0, 1, 7, 2**20, 2**24, 2**31, 2**32 - 1]))


def wrong_version(p):
    return frame(p.number(), p.id, version=p.dice.choice([0, VERSION + 1, 255, 65535]))


def unknown_number(p):
    return p.greeting() + frame(p.dice.choice([0, 7, 9, 32, 39, 200, 65535, LAUNCH if p.to_daemon else HELLO]), p.id)


def too_early(p):
    return p.any() + p.greeting()


def not_json(p):
    deep = p.dice.choice([b"[" * 900, b'{"a":' * 700, b'{"a":1,"a":2}', b"\xff\xfe", b"", b"null", b'"x"', b"1e999",
                          b"{}{}"])
    return p.greeting() + frame(p.number(), deep)


def another_attempt(p):
    other = {**p.id, p.dice.choice(["job", "attempt"]): p.dice.choice(NUMBERS + [p.id["job"] + 1])}
    if p.dice.random() < 0.5:
        other = {**p.id, "nonce": "%032x" % p.dice.getrandbits(128)}
    body = dict(other, reason="hostile", grace_ms=0, checkpoint=False) if not p.to_daemon else other
    return p.greeting() + (p.event(**other) if p.to_daemon else frame(STOP, body))


def strange_fields(p):
    if not p.to_daemon:
        body = {**p.id, "reason": "hostile", "grace_ms": 0, "checkpoint": False}
        body[p.dice.choice(sorted(set(body) - {"nonce"}))] = p.dice.choice(STRANGE[:1] + STRANGE[3:-1])
        if isinstance(body["reason"], str):
            return frame(ACK, {**p.id, "seq": p.dice.choice(STRANGE[:9])})
        return frame(STOP, body)
    field = p.dice.choice(["seq", "mono_ns", "wall_ms", "kind", "body", "incarnation"])
    return p.hello() + p.event(**{field: p.dice.choice(STRANGE)})


def strange_numbers(p):
    if not p.to_daemon:
        return frame(ACK, {**p.id, "seq": p.dice.choice(NUMBERS)})
    number = lambda: p.dice.choice(NUMBERS)
    return p.hello(last_seq=number(), first_seq=number(), wall_ms=number()) + \
        b"".join(p.event(seq=number(), wall_ms=number()) for _ in range(20)) + \
        p.beat(step=number(), loss=p.dice.choice([1e308, -1, None]), ranks_alive=number())


def strange_events(p):
    """In an order that no agent has, with bodies that no kind has; none that would be the end of the attempt."""
    kinds = ["step", "checkpoint", "rank_exited", "generation_started", "learned", "plan", "nodes", "hang", "no_room", "encoding",
             "\n"]
    if not p.to_daemon:
        return frame(NODE_GONE, {**p.id, "node": p.dice.choice(NUMBERS), "text": "x" * 2000}) + frame(CHECKPOINT, p.id)
    return p.hello() + b"".join(p.event(kind=p.dice.choice(kinds), body={
        key: p.dice.choice(STRANGE) for key in ("step", "path", "text", "generation", "rank", "pids")})
        for _ in range(20))


def skipped_events(p):
    """Far above what the daemon waits for: it must not take it in silence."""
    return p.hello() + p.event()


def piece_and_silence(p):
    whole = p.greeting() + p.any()
    return whole[:p.dice.randrange(1, len(whole))]


def flood(p):
    return p.greeting() + b"".join(p.any() for _ in range(5000))


def huge(p):
    return p.greeting() + frame(p.number(), b'{"nonce":"' + b"x" * p.dice.choice([1 << 12, 1 << 20, 1 << 22]) + b'"}')


STREAMS = [noise, wrong_length, wrong_version, unknown_number, too_early, not_json, another_attempt, strange_fields,
           strange_numbers, strange_events, piece_and_silence, flood, huge]


def speak(sock, data, seconds=0.2):
    """Says it all while it listens, then keeps still for a while; the other side may hang up."""
    sock.settimeout(seconds)
    heard = threading.Thread(target=hear, args=(sock,), daemon=True)
    heard.start()
    try:
        for at in range(0, len(data), 60000):
            sock.sendall(data[at:at + 60000])
    except OSError:
        pass
    heard.join(seconds)
    sock.close()


def hear(sock):
    try:
        while sock.recv(65536):
            pass
    except OSError:
        pass


def connected(path):
    sock = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(path))         # the path may be longer than a socket's address
    sock.connect(os.path.basename(path))
    os.chdir("/")
    return sock


def answers(what):
    """The daemon does, soon, and says that the calm job runs."""
    start = time.monotonic()
    code, out, err = run("jobctl", "status", "--json", limit=ANSWER_S)
    if code != 0 or "calm" not in out:
        raise Broken("after %s: status: exit %d: %s" % (what, code, err or out))
    return time.monotonic() - start


def identity(job):
    with open("%s/jobs/%d/1/agent.json" % (HOME, job)) as f:
        return json.load(f)


def at_agent(job, dice):
    """The agent goes on, whatever a daemon says that does not know its attempt."""
    who = {**identity(job), "job": job, "attempt": 1}
    slowest, streams = 0, dice.sample(STREAMS, len(STREAMS))
    for k in range(CASES):
        stream = streams[k % len(streams)]
        speak(connected("%s/jobs/%d/1/agent.sock" % (HOME, job)), stream(Peer(who, dice, False)))
        if identity(job)["pid"] != who["pid"] or not os.path.exists("/proc/%d" % who["pid"]):
            raise Broken("the agent ended after %s" % stream.__name__)
        slowest = max(slowest, answers(stream.__name__))
    return slowest


def become_agent(job):
    """Lock, identity and socket of the agent of a job; it dies for that while there is no daemon."""
    who, folder = identity(job), "%s/jobs/%d/1" % (HOME, job)
    os.kill(who["pid"], signal.SIGKILL)
    lock = open(folder + "/agent.lock", "w")
    until("the agent's lock", lambda: locked(lock))
    with open("/proc/self/stat") as f:
        who.update(pid=os.getpid(), start_time=int(f.read().rpartition(")")[2].split()[19]))
    with open(folder + "/agent.json.new", "w") as f:
        json.dump(who, f)
    os.rename(folder + "/agent.json.new", folder + "/agent.json")
    os.chdir(folder)
    if os.path.exists("agent.sock"):
        os.unlink("agent.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("agent.sock")
    os.chmod("agent.sock", 0o600)
    listener.listen()
    os.chdir("/")
    return {**who, "job": job, "attempt": 1}, lock, listener


def locked(lock):
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def gap_is_told():
    with open(HOME + "/daemon.log", errors="replace") as f:
        return "an event is missing" in f.read()


def hostile_agent(job, dice):
    """The daemon goes on, whatever an agent says that has all that it knows agents by."""
    who, lock, listener = become_agent(job)
    listener.settimeout(END_S)
    pid, slowest, streams = ask_daemon(), 0, dice.sample(STREAMS, len(STREAMS))
    speak(listener.accept()[0], skipped_events(Peer(who, dice, True)))
    until("the daemon asks for events that are missing", gap_is_told)
    for k in range(CASES):
        stream = streams[k % len(streams)]
        # An agent of another version is asked only seldom: that comes last.
        if stream is wrong_version and k + 1 < CASES:
            stream = noise
        speak(listener.accept()[0], stream(Peer(who, dice, True)))
        slowest = max(slowest, answers(stream.__name__))
        if ask_daemon() != pid:
            raise Broken("the daemon ended after %s" % stream.__name__)
    os.unlink("%s/jobs/%d/1/agent.sock" % (HOME, job))
    return slowest


def at_daemon(job, dice):
    """The hostile agent is a process of its own, which ends; then there is none, and the job begins again."""
    daemon = ask("version")["daemon"]["pid"]
    os.kill(daemon, signal.SIGKILL)
    until("the daemon ends", lambda: not alive(daemon))
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, b"%f" % hostile_agent(job, dice))
        except Exception as e:
            os.write(tell, ("%s: %s" % (type(e).__name__, e)).encode())
        os._exit(0)
    os.close(tell)
    said = os.read(told, 65536).decode()
    os.waitpid(child, 0)
    try:
        return float(said)
    except ValueError:
        raise Broken(said)


def ask_daemon():
    run("jobctl", "daemon", "--detach")
    return ask("version")["daemon"]["pid"]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def script(name):
    path = "%s/%s.yaml" % (WORK, name)
    with open(path, "w") as f:
        f.write("name: %s\nresources: {cpus: 1}\nretry: {max: 3, backoff: 50ms..100ms}\nrun: |\n" % name)
        f.writelines("  " + line + "\n" for line in invariants.script(WORK, name).splitlines())
    code, out, err = run("jobctl", "submit", "-q", path)
    note(WORK, id=int(out), name=name, kind="script")
    until("%s runs" % name, lambda: invariants.journal(WORK, name))
    return int(out)


def attack(dice):
    script("calm")
    job = script("target")
    slowest = max(at_agent(job, dice), at_daemon(job, dice))
    open(WORK + "/go", "w").close()
    until("all jobs end", lambda: all(row["state"] == "done" for row in ask("status", "-a")["jobs"]))
    print("frames: seed %d: %d streams at the agent, %d at the daemon; it answers within %.2f s" % (
        SEED, CASES, CASES, slowest), flush=True)
    return invariants.check(WORK)


def main():
    os.makedirs(WORK + "/ran", exist_ok=True)
    print("frames: seed %d" % SEED, flush=True)
    try:
        objections = attack(random.Random(SEED))
    except Broken as e:
        objections = [str(e)]
    for sentence in objections:
        print("frames: OBJECTION " + sentence)
    sys.exit(bool(objections))


main()
