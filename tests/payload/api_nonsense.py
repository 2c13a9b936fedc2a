#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ask the daemon what nobody should ask, over its socket, and check the answers.

  api_nonsense.py SOCKET
"""
import json
import random
import socket
import sys

SPEC = 'name: n\nrun: "true"\n'


def talk(path, raw, shut=True):
    """Send bytes; what comes back until an answer is whole, or the daemon closes or is silent."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10 if not shut else 0.5)
    s.connect(path)
    got = b""
    try:
        s.sendall(raw)
        if shut:
            s.shutdown(socket.SHUT_WR)
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
            head, _, body = got.partition(b"\r\n\r\n")
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:") and len(body) >= int(line[15:]):
                    return got
    except (ConnectionError, BrokenPipeError, socket.timeout):
        pass
    finally:
        s.close()
    return got


def request(path, method, target, body=None, headers=()):
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "Host: jobctl", f"Content-Length: {len(raw)}", *headers]
    return talk(path, "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + raw,
                shut=False)


def parse(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    return status, json.loads(body)


def deep(n):
    return b'{"spec":' + b"[" * n + b"]" * n + b"}"


# method, target, body, allowed statuses
ROWS = [
    ("GET", "/", None, (404,)),
    ("GET", "/v1", None, (404,)),
    ("GET", "/v2/jobs", None, (404,)),
    ("GET", "/v1/jobs/999", None, (404,)),
    ("GET", "/v1/jobs/-1", None, (400, 404)),
    ("GET", "/v1/jobs/99999999999999999999999", None, (400, 404)),
    ("GET", "/v1/jobs/%00", None, (400, 404)),
    ("GET", "/v1/jobs/..%2f..%2fetc", None, (400, 404)),
    ("GET", "/v1/jobs/" + "x" * 3000, None, (400, 404, 414)),
    ("GET", "/v1/jobs/last", None, (200, 404)),
    ("GET", "/v1/jobs?limit=-5", None, (200, 400)),
    ("GET", "/v1/jobs?limit=99999999999999999999", None, (200, 400)),
    ("GET", "/v1/jobs?limit=abc&before=&ids=,,-,9-1,1-999999999999", None, (200, 400)),
    ("GET", "/v1/jobs?ids=1-4000000000", None, (200, 400)),
    ("GET", "/v1/jobs?name='%20OR%201=1;--", None, (200, 400)),
    ("GET", "/v1/jobs/1/logs?rank=-1&offset=99999999999999", None, (200, 400, 404)),
    ("GET", "/v1/jobs/1/logs?rank=../../../../etc/passwd", None, (200, 400, 404)),
    ("GET", "/v1/jobs/1/logs?attempt=4294967297&limit=0", None, (200, 400, 404)),
    ("GET", "/v1/jobs/1/events?after=-9&limit=0&wait_s=-3", None, (200, 400)),
    ("GET", "/v1/jobs/1/events?wait_s=nan", None, (200, 400)),
    ("GET", "/v1/jobs/1/wait?timeout_s=-1", None, (200, 400)),
    ("GET", "/v1/jobs/1/metrics?name=%ff%fe&limit=1e9", None, (200, 400)),
    ("POST", "/v1/version", {}, (400,)),
    ("DELETE", "/v1/jobs/1", None, (400,)),
    ("PUT", "/v1/jobs", {}, (400,)),
    ("POST", "/v1/jobs", b"", (400,)),
    ("POST", "/v1/jobs", b"{", (400,)),
    ("POST", "/v1/jobs", b"[]", (400,)),
    ("POST", "/v1/jobs", b"null", (400,)),
    ("POST", "/v1/jobs", b"\xff\xfe{}", (400,)),
    ("POST", "/v1/jobs", b'{"spec":"a","spec":"b"}', (400,)),
    ("POST", "/v1/jobs", deep(3000), (400,)),
    ("POST", "/v1/jobs", b'{"spec":"run: \\u0000 x"}', (400,)),
    ("POST", "/v1/jobs", {}, (400,)),
    ("POST", "/v1/jobs", {"spec": 5, "cwd": "/"}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "set": "x"}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "set": [1, None]}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "set": ["a"] * 5000}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "hold": "yes"}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "secrets": []}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "secrets": {"A": 5}}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "canonical": "run: x"}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "canonical": {}}, (400,)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "not/absolute"}, (201, 400)),
    ("POST", "/v1/jobs", {"spec": SPEC, "file": "x" * 100000, "cwd": "/"}, (201, 400)),
    ("POST", "/v1/jobs", {"spec": "x: " + "y" * 2_000_000, "cwd": "/"}, (400, 413)),
    ("POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "dryrun": True}, (400,)),
    ("POST", "/v1/jobs", {"spec": "run: \x1b[31m\n", "cwd": "/"}, (400,)),
    ("POST", "/v1/jobs/1/cancel", b"nonsense", (400,)),
    ("POST", "/v1/jobs/1/cancel", {"reason": 7}, (400,)),
    ("POST", "/v1/jobs/1/cancel", {"now": 1}, (400,)),
    ("POST", "/v1/jobs/1/release", {"now": True}, (400,)),
    ("POST", "/v1/jobs/1/retry", b"[", (400, 409)),
    ("POST", "/v1/jobs/999/hold", {}, (404,)),
    ("POST", "/v1/jobs/999/checkpoint", {}, (404,)),
]

# No HTTP at all, or not to its end.
RAW = [
    b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET /v1/jobs\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" * 50,
    b"GET /v1/version HTTP/9.9\r\n\r\n", b"GET /v1/version HTTP/1.1\r\n" + b"A: b\r\n" * 5000,
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}",
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/jobs?" + b"a=b&" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
]


def main():
    path, bad = sys.argv[1], 0
    random.seed(1)
    status, first = parse(request(path, "GET", "/v1/version"))
    assert status == 200, status
    status, job = parse(request(path, "POST", "/v1/jobs", {"spec": SPEC, "cwd": "/", "hold": True,
                                                           "file": "n.yaml"}))
    assert status == 201 and job["job"]["id"] == 1, job
    for method, target, body, allowed in ROWS:
        answer = request(path, method, target, body)
        what = f"{method} {target[:60]} {str(body)[:60]}"
        try:
            status, said = parse(answer)
        except (ValueError, IndexError):
            status, said = 0, {}
            if answer.startswith(b"HTTP/1.1 4") and (413 in allowed or 414 in allowed):
                continue                    # refused before it was read: no body is due
        good = status in allowed and said.get("schema") == 2
        if good and status >= 400:
            text = said["error"]["text"]
            good = bool(text) and "\n" not in text and bool(said["error"]["code"])
        if not good:
            bad += 1
            print(f"{what}: {status} {str(said)[:200]}, expected one of {allowed}")
    for raw in RAW:
        talk(path, raw)
    for _ in range(200):
        raw = bytearray(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n"
                        + b'{"spec":"run: 1","cwd":"/"}   ')
        for _ in range(random.randint(1, 8)):
            raw[random.randrange(len(raw))] = random.randrange(256)
        talk(path, bytes(raw))
    status, last = parse(request(path, "GET", "/v1/version"))
    if status != 200 or last["pid"] != first["pid"] or last["started_at"] != first["started_at"]:
        bad += 1
        print(f"the daemon did not live through it: {first} {last}")
    print(f"{len(ROWS)} requests, {bad} wrong answers")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
