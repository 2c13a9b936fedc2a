# SPDX-License-Identifier: Apache-2.0
"""hub_server.py - a server that behaves like a Hugging Face hub, for tests of jobctl-fetch

    hub_server.py add ROOT OWNER/REPO FOLDER [REV]   a commit with the files of FOLDER; prints it
    hub_server.py commit FOLDER                      what it would be
    hub_server.py serve ROOT                         the hub on one port and its store on another, until SIGTERM

`serve` writes ROOT/ports ("HUB STORE") once both listen. The hub is at 127.0.0.1; large files are redirected to the
store at localhost, which is another host to a client. Small ones are redirected to another path of the hub. Each
request is a line of JSON in ROOT/log: {at, path, range, token}. ROOT/mode (JSON, read for each request) has faults:

    token: T        401 without it, 403 for repositories in `gated`
    fail: [STATUS]  the hub's next answers, Retry-After: `after` seconds
    cut: [N]        the store's next answers end after so many bytes
    stall: N        the store sends the first so many bytes of a file and then nothing until ROOT/go is there
    wrong: N        the store's next N answers have another last byte
    no_range: true  the store ignores Range
"""
import hashlib
import http.server
import json
import os
import shutil
import signal
import sys
import threading
import time

LARGE = (".safetensors", ".pth", ".bin", ".model")


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def files_of(folder):
    for at, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(at, name), folder)


def commit_of(folder):
    sum_ = hashlib.sha1()
    for path in files_of(folder):
        with open(os.path.join(folder, path), "rb") as f:
            sum_.update(path.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return sum_.hexdigest()


def add(root, repo, folder, rev="main"):
    commit, place = commit_of(folder), os.path.join(root, "repos", repo)
    if not os.path.isdir(os.path.join(place, commit)):
        shutil.copytree(folder, os.path.join(place, commit))
    os.makedirs(os.path.join(place, "refs"), exist_ok=True)
    with open(os.path.join(place, "refs", rev.replace("/", "%2F")), "w") as f:
        f.write(commit)
    print(commit)


class Hub:
    def __init__(self, root):
        self.root, self.lock, self.used = root, threading.Lock(), {}

    def mode(self):
        try:
            with open(os.path.join(self.root, "mode")) as f:
                return json.load(f)
        except FileNotFoundError:
            return {}

    def next_of(self, mode, key):
        """The next entry of a list of the mode; None after the last."""
        with self.lock:
            mark = json.dumps([mode.get("id"), key])
            i = self.used[mark] = self.used.get(mark, -1) + 1
            rows = mode.get(key, [])
            rows = rows if isinstance(rows, list) else [True] * rows
            return rows[i] if i < len(rows) else None

    def log(self, **row):
        with self.lock, open(os.path.join(self.root, "log"), "a") as f:
            f.write(json.dumps(row) + "\n")

    def find(self, repo, rev):
        place = os.path.join(self.root, "repos", repo)
        if not os.path.isdir(place):
            return None, "RepoNotFound"
        try:
            with open(os.path.join(place, "refs", rev)) as f:
                return os.path.join(place, f.read()), None
        except OSError:
            whole = os.path.join(place, rev)
            return (whole, None) if len(rev) == 40 and os.path.isdir(whole) else (None, "RevisionNotFound")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub, store = None, False

    def log_message(self, *_):
        pass

    def refuse(self, status, code="", text="", after=None):
        body = json.dumps({"error": text}).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", text)
        if after is not None:
            self.send_header("Retry-After", str(after))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.mode = self.hub.mode()
        self.hub.log(at="store" if self.store else "hub", path=self.path, range=self.headers.get("Range"),
                     token=self.headers.get("Authorization"))
        try:
            if self.store:
                self.send_blob()
            else:
                self.answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # --- the hub ---

    def answer(self):
        failure = self.hub.next_of(self.mode, "fail")
        part = self.path.split("?")[0].lstrip("/").split("/")
        if failure:
            self.refuse(failure, after=self.mode.get("after"))
        elif part[:2] == ["api", "models"]:
            self.allowed("/".join(part[2:4]), part[5], self.send_list)
        elif part[:2] == ["api", "cache"]:
            self.allowed("/".join(part[2:4]), part[4], self.send_small, "/".join(part[5:]))
        else:
            self.allowed("/".join(part[:2]), part[3], self.lead, "/".join(part[4:]))

    def allowed(self, repo, rev, then, *rest):
        token = self.mode.get("token")
        if token and self.headers.get("Authorization") != "Bearer " + token:
            self.refuse(401, "RepoNotFound", "Invalid username or password.")
        elif repo in self.mode.get("gated", []):
            self.refuse(403, "GatedRepo", "Access to model %s is restricted." % repo)
        else:
            place, code = self.hub.find(repo, rev)
            if place:
                then(repo, place, *rest)
            else:
                self.refuse(404, code, "not found")

    def send_json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_list(self, _repo, place):
        rows = []
        for path in files_of(place):
            with open(os.path.join(place, path), "rb") as f:
                data = f.read()
            row = {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
            if path.endswith(LARGE):
                row["blobId"] = git_sha1(b"pointer of " + path.encode())
                row["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            rows.append(row)
        self.send_json({"sha": os.path.basename(place), "siblings": rows})

    def lead(self, repo, place, path):
        whole = os.path.join(place, path)
        if not os.path.isfile(whole):
            self.refuse(404, "EntryNotFound", "Entry not found")
            return
        with open(whole, "rb") as f:
            data = f.read()
        commit, large = os.path.basename(place), path.endswith(LARGE)
        self.send_response(302 if large else 307)
        self.send_header("X-Repo-Commit", commit)
        if large:
            self.send_header("X-Linked-Size", str(len(data)))
            self.send_header("X-Linked-Etag", '"%s"' % hashlib.sha256(data).hexdigest())
            self.send_header("ETag", '"%s"' % git_sha1(b"pointer of " + path.encode()))
            self.send_header("Location", "http://localhost:%d/%s/%s/%s?Signature=signed" %
                             (self.hub.store_port, repo, commit, path))
        else:
            self.send_header("ETag", 'W/"%s"' % git_sha1(data))
            self.send_header("Location", "/api/cache/%s/%s/%s" % (repo, commit, path))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_small(self, _repo, place, path):
        with open(os.path.join(place, path), "rb") as f:
            data = f.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # --- the store ---

    def send_blob(self):
        with open(os.path.join(self.hub.root, "repos", self.path.split("?")[0].lstrip("/")), "rb") as f:
            data = f.read()
        first, wanted = 0, self.headers.get("Range")
        if wanted and not self.mode.get("no_range"):
            first = int(wanted[len("bytes="):-1])
        if self.hub.next_of(self.mode, "wrong"):
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, len(data) - 1, len(data)))
        self.send_header("ETag", '"an-etag-of-the-store"')
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        self.send_part(data[first:], first)

    def send_part(self, data, first):
        cut, stall = self.hub.next_of(self.mode, "cut"), self.mode.get("stall")
        if cut is not None:
            self.wfile.write(data[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        if stall is not None:
            stall = max(0, stall - first)
            self.wfile.write(data[:stall])
            self.wfile.flush()
            while not os.path.exists(os.path.join(self.hub.root, "go")):
                time.sleep(0.01)
            data = data[stall:]
        self.wfile.write(data)


def serve(root):
    hub = Hub(root)
    handlers = [type("H", (Handler,), {"hub": hub, "store": store}) for store in (False, True)]
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), h) for h in handlers]
    hub.store_port = servers[1].server_address[1]
    for s in servers:
        s.daemon_threads = True
        threading.Thread(target=s.serve_forever, daemon=True).start()
    with open(os.path.join(root, "ports.new"), "w") as f:
        f.write("%d %d\n" % tuple(s.server_address[1] for s in servers))
    os.rename(os.path.join(root, "ports.new"), os.path.join(root, "ports"))
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


if __name__ == "__main__":
    if sys.argv[1] == "add":
        add(*sys.argv[2:])
    elif sys.argv[1] == "commit":
        print(commit_of(sys.argv[2]))
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        serve(sys.argv[2])
