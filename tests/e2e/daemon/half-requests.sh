# SPDX-License-Identifier: Apache-2.0
# Clients that send part of a request do not block others from the page and the metrics: they may close at once, stay,
# or send byte by byte. Complete requests are answered, even if the client has closed its side.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$JOBCTL_HOME"
export XDG_CONFIG_HOME="$WORK/config"
mkdir -p "$XDG_CONFIG_HOME/jobctl"
echo "metrics: {listen: \"127.0.0.1:$port\"}" >"$XDG_CONFIG_HOME/jobctl/config.yaml"
code 0 jobctl dashboard --print --json
cat >"$WORK/half.py" <<'PY'
import socket, sys, time

HALF = b"GET / HTT"

def connect(port, data=b""):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    s.sendall(data)
    return s

def whole(port, kept=False):
    return (f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n" + ("" if kept else "Connection: close\r\n") + "\r\n").encode()

def asks(port, what):
    begin = time.monotonic()
    with connect(port, whole(port)) as s:
        s.shutdown(socket.SHUT_WR)
        assert s.recv(9) == b"HTTP/1.1 ", what
    assert time.monotonic() - begin < 1, f"{what}: {time.monotonic() - begin} s"

def answered(s):
    f = s.makefile("rb")
    assert f.readline().startswith(b"HTTP/1.1 ")
    head = {name.lower(): value for name, value in (line.split(b":", 1) for line in iter(f.readline, b"\r\n"))}
    f.read(int(head[b"content-length"]))

# b"": the other side has closed it, although a byte comes each second
def drips(s):
    s.settimeout(1)
    while True:
        try:
            return s.recv(1)
        except TimeoutError:
            s.sendall(b"x")
        except ConnectionError:
            return b""

ports, late = [int(p) for p in sys.argv[1:]], []
for port in ports:
    for _ in range(150):
        connect(port, HALF).close()
    asks(port, "after 150 that were closed")
    held = [connect(port, HALF) for _ in range(150)]
    asks(port, "beside 150 that stay")
begin = time.monotonic()
for port in ports:
    kept = connect(port, whole(port, kept=True))
    answered(kept)
    late.append((port, kept, connect(port), connect(port, HALF)))
# What stays is closed within the limit of 10 s, and what has been answered is not.
for port, kept, silent, half in late:
    assert silent.recv(1) == b"" and drips(half) == b""
    kept.sendall(whole(port, kept=True))
    answered(kept)
assert 9 < time.monotonic() - begin < 25, time.monotonic() - begin
PY
python3 "$WORK/half.py" "$(field port <"$WORK/out")" "$port"
