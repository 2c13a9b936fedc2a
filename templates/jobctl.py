# SPDX-License-Identifier: Apache-2.0
"""Use jobctl from Python: one file, standard library only, Python 3.9 and later.

`pip install` of the wheel installs this module and the programs. Without the wheel, copy this file next to your script,
or add its installed directory (share/jobctl/templates) to PYTHONPATH.

    import jobctl

    with jobctl.Client() as c:                      # this machine; the daemon is started if it does not run
        job = c.submit({"run": "python train.py", "resources": {"gpus": 1}})
        for line in c.logs(job, follow=True):
            print(line, end="")
        print(c.wait(job)["result"])

    with jobctl.Client(host="me@login") as c:       # as `jobctl -H me@login`: over SSH, no open port
        print(c.why("last"))

A JOB is an id, a name (the newest job of that name), "last", or a row that submit() or jobs() returned.  Rows, events
and specs are the dictionaries of docs/API.md.  An error is an exception with the daemon's message.

If the connection breaks, a query (any call but submit, cancel, retry, hold, release and checkpoint) is sent again, even
to a restarted daemon; events() and logs() continue at their position, so nothing is lost or repeated. submit() is
repeated too, with a key by which the daemon recognizes it: one call submits one job. Any other call is sent once. A
Client belongs to one thread.
"""
from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sysconfig
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode

__all__ = ["Client", "Error", "Refused", "NotFound", "Conflict", "Unavailable", "Row", "Event", "Job", "SCHEMA"]

SCHEMA = 2  # of the answers (docs/API.md)

Row = Dict[str, Any]
Event = Dict[str, Any]
Job = Union[int, str, Mapping[str, Any]]

_READ_S = 120.0     # no answer takes longer
_ASK_S = 50         # one long poll
_FRESH_S = 1.0      # a connection that answered this recently counts as open
_PIECE = 256 * 1024
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")


class Error(Exception):
    """The daemon refused or failed; the base of all errors.

    str(error) is the message; code is one of usage, not_found, conflict, too_large, bug, system; mistakes lists all
    mistakes of a wrong spec, each {text, file, line, column}.
    """

    code: str = "system"

    def __init__(self, text: str, code: Optional[str] = None, mistakes: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(text)
        self.code = code or self.code
        self.mistakes: List[Dict[str, Any]] = [dict(m) for m in mistakes]


class Refused(Error):
    """The request can never succeed: a wrong spec or argument."""

    code = "usage"


class NotFound(Error):
    """The job or node does not exist."""

    code = "not_found"


class Conflict(Error):
    """Not possible in this state, such as cancelling a job that is done."""

    code = "conflict"


class Unavailable(Error):
    """The daemon does not run, the host cannot be reached, or the operating system refused."""


_KINDS = {"usage": Refused, "too_large": Refused, "not_found": NotFound, "conflict": Conflict, "system": Unavailable}


class _Broken(Exception):
    """The connection failed, not the request."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket that is already connected."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__("jobctl", timeout=_READ_S)
        connected.settimeout(_READ_S)
        self.sock = connected

    def connect(self) -> None:
        raise _Broken("the connection was closed")


def _text_of(environment: Mapping[str, str]) -> Dict[str, str]:
    """The variables that JSON can hold."""
    out = {}
    for name, value in environment.items():
        try:
            (name + value).encode("utf-8")
        except UnicodeEncodeError:
            continue
        out[name] = value
    return out


class _Here:
    """The daemon on this machine."""

    def __init__(self, home: Optional[str], program: str) -> None:
        state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
        self.home = os.path.abspath(home or os.environ.get("JOBCTL_HOME") or os.path.join(state, "jobctl"))
        self.program = program

    def connect(self) -> socket.socket:
        try:
            return self._connect()
        except (FileNotFoundError, ConnectionRefusedError):
            self._start()
            return self._connect()

    def _connect(self) -> socket.socket:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path, directory = os.path.join(self.home, "jobctl.sock"), -1
        try:
            if len(os.fsencode(path)) > 107:  # too long for a socket address
                directory = os.open(self.home, os.O_PATH | os.O_DIRECTORY)
                path = f"/proc/self/fd/{directory}/jobctl.sock"
            s.connect(path)
            return s
        except BaseException:
            s.close()
            raise
        finally:
            if directory >= 0:
                os.close(directory)

    def _start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("JOBCTL_")}
        env["JOBCTL_HOME"] = self.home
        try:
            done = subprocess.run([self.program, "daemon", "--detach"], env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                                  check=False)
        except FileNotFoundError:
            raise Unavailable(f"no daemon runs in {self.home}, and {self.program} is not in PATH to start one; "
                              "Client(program=...) takes its path") from None
        if done.returncode != 0:
            raise Unavailable("cannot start the daemon: " + _last_line(done.stderr))

    def environment(self) -> Dict[str, str]:
        return _text_of(os.environ)

    def directory(self) -> str:
        return os.getcwd()

    def close(self) -> None:
        pass


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines() or [""]
    return lines[-1].replace("jobctl-ssh: ", "").replace("jobctl: ", "")


class _There:
    """The daemon on another machine, through `jobctl -H HOST relay`, or through ssh if this machine has no jobctl."""

    def __init__(self, host: str, program: str, ssh: Optional[Sequence[str]]) -> None:
        self.host = host
        if host.startswith("-"):
            raise Refused(f"host={host!r} is not a host")
        if ssh is None and shutil.which(program):
            self.words = [program, "-H", host, "relay"]
        else:
            self.words = [*(ssh or _SSH), host, "jobctl relay"]
        self.helper: Optional[subprocess.Popen[bytes]] = None
        self.stream: Optional[socket.socket] = None
        self.login: Dict[str, Any] = {}

    def _begin(self) -> socket.socket:
        self.close()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.helper = subprocess.Popen(self.words, stdin=theirs.fileno(), stdout=theirs.fileno(),
                                               stderr=subprocess.PIPE, start_new_session=True)
            except FileNotFoundError:
                ours.close()
                raise Unavailable(f"{self.words[0]} is not in PATH") from None
        self.stream = ours
        for _ in range(1000):   # the login may print lines of its own
            line = self._line()
            if line.startswith(b'{"version"'):
                break
        hello = self._parsed(line)
        if hello.get("schema") != SCHEMA:
            raise Refused(f"the jobctl of {self.host} uses schema {hello.get('schema')}, this module "
                          f"{SCHEMA}; use the module from that version")
        return ours

    def _line(self) -> bytes:
        assert self.stream is not None
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = self.stream.recv(1)
            if not piece:
                raise self._ended()
            line += piece
        return bytes(line)

    def _ended(self) -> Exception:
        """Why the connection ended: a refused login is not tried again."""
        if self.helper is None:
            return _Broken(f"the connection to {self.host} ended")
        assert self.stream is not None
        self.stream.close()
        said = self.helper.communicate()[1]
        code, self.helper = self.helper.returncode, None
        text = _last_line(said) or f"the connection to {self.host} ended"
        return Refused(text) if code == 2 or (code == 3 and not self.login) else _Broken(text)

    def _parsed(self, line: bytes) -> Dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            raise Unavailable(f"cannot understand the answer from {self.host}") from None
        error = answer.get("error")
        if error:
            raise Unavailable(f"{self.host}: {error.get('text')}")
        return answer

    def _ask(self, stream: socket.socket, question: Mapping[str, Any]) -> Dict[str, Any]:
        stream.sendall(json.dumps(question).encode() + b"\n")
        return self._parsed(self._line())

    def connect(self) -> socket.socket:
        stream = self._begin()
        if not self.login:
            self.login = self._ask(stream, {"do": "submitter"})
        self._ask(stream, {"do": "connect", "start": True})
        return stream

    def environment(self) -> Dict[str, str]:
        return dict(self.login["data"])

    def directory(self) -> str:
        return str(self.login["directory"])

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        if self.helper is not None:
            self.helper.terminate()
            self.helper.communicate()
        self.stream = self.helper = None


def _own_program() -> str:
    """The jobctl that pip installed with this module, else the one in PATH."""
    program = os.path.join(sysconfig.get_path("scripts"), "jobctl")
    installed = os.path.dirname(os.path.abspath(__file__)) == sysconfig.get_path("platlib")
    return program if installed and os.path.exists(program) else "jobctl"


class Client:
    """A connection to the daemon on this machine, or on `host`.

    home      the state directory; default: $JOBCTL_HOME, else ~/.local/state/jobctl
    host      "[user@]host" as ssh takes it: everything happens there, as with `jobctl -H`; default: $JOBCTL_HOST, "" is
              this machine
    program   the path of jobctl here, to start a daemon or to reach the host; default: the one that pip installed with
              this module, else "jobctl" in PATH
    ssh       the words of an ssh command that reaches the host, to use instead of jobctl: ["ssh", "-F", "my_config"]
    patience  for how many seconds a query is repeated if its connection breaks; None: forever. The first connection is
              tried once
    """

    def __init__(self, home: Optional[str] = None, *, host: Optional[str] = None, program: Optional[str] = None,
                 ssh: Optional[Sequence[str]] = None, patience: Optional[float] = None) -> None:
        far = os.environ.get("JOBCTL_HOST", "") if host is None and home is None else host
        program = program or _own_program()
        self._far: Union[_Here, _There] = _There(far, program, ssh) if far else _Here(home, program)
        self._patience = patience
        self._http: Optional[_Connection] = None
        self._answered = 0.0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, not the daemon or a job. Another call connects again."""
        if self._http is not None:
            self._http.close()
        self._http = None
        self._far.close()

    # ---- requests ----

    def _exchange(self, method: str, path: str, body: Optional[bytes]) -> Tuple[int, bytes]:
        try:
            if self._http is None:
                self._http = _Connection(self._far.connect())
            headers = {"Content-Type": "application/json"} if body is not None else {}
            self._http.request(method, path, body, headers)
            answer = self._http.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException, _Broken) as why:
            self.close()
            raise _Broken(str(why) or type(why).__name__) from None
        except BaseException:
            self.close()
            raise
        if answer.will_close:
            self.close()
        self._answered = time.monotonic()
        return answer.status, data

    def _read(self, status: int, data: bytes) -> Dict[str, Any]:
        try:
            answer = json.loads(data)
        except ValueError:
            raise Error("cannot parse the daemon's answer", "bug") from None
        if not isinstance(answer, dict) or answer.get("schema") != SCHEMA:
            raise Refused(f"the daemon does not use schema {SCHEMA}; use the module from its version")
        if status >= 400:
            error = answer.get("error", {})
            code = error.get("code", "system")
            raise _KINDS.get(code, Error)(error.get("text", "no reason"), code, answer.get("errors", ()))
        return answer

    def _get(self, path: str, **query: Any) -> Dict[str, Any]:
        words = urlencode({k: v for k, v in query.items() if v is not None})
        return self._repeat("GET", path + ("?" + words if words else ""), None)

    def _repeat(self, method: str, path: str, body: Optional[bytes]) -> Dict[str, Any]:
        pause, since = 0.1, time.monotonic()
        while True:
            try:
                return self._read(*self._exchange(method, path, body))
            except _Broken as why:
                if self._answered == 0:
                    raise Unavailable(str(why)) from None
                if self._patience is not None and time.monotonic() - since >= self._patience:
                    raise Unavailable(str(why)) from None
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _post(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        data = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        if time.monotonic() - self._answered > _FRESH_S or self._http is None:
            self.version()
        if body.get("key"):
            try:
                return self._repeat("POST", path, data)
            except Unavailable as why:
                raise Unavailable(f"it is not known whether the job was submitted ({why}); repeat submit() with "
                                  f"key={body['key']!r}, which never submits twice") from None
        try:
            return self._read(*self._exchange("POST", path, data))
        except _Broken as why:
            raise Unavailable(f"the connection broke during the request ({why}): it may have been carried out; check "
                              "with jobs() before you repeat it") from None

    @staticmethod
    def _path(job: Job, rest: str = "") -> str:
        name = str(job["id"] if isinstance(job, Mapping) else job)
        if "/" in name or not name.strip("."):
            raise NotFound(f"no job is named {name!r}")
        return f"/v1/jobs/{quote(name, safe=',')}{rest}"

    # ---- queries ----

    def version(self) -> Dict[str, Any]:
        """{version, pid, home, started_at, boot_id} of the daemon."""
        return self._get("/v1/version")

    def jobs(self, *, all: bool = False, name: Optional[str] = None, ids: Optional[str] = None,
             limit: int = 100) -> List[Row]:
        """Rows, newest first: jobs that are not done; with all=True the newest `limit` jobs; jobs of one name; jobs with
        ids="3-5,7"."""
        return list(self._get("/v1/jobs", all=int(all or bool(name) or bool(ids)), name=name, ids=ids,
                              limit=limit)["jobs"])

    def job(self, job: Job) -> Row:
        """The row of one job."""
        return dict(self.show(job)["job"])

    def show(self, job: Job) -> Dict[str, Any]:
        """Everything about one job: {job, spec, attempts, checkpoints, goodput, paths, ...}."""
        return self._get(self._path(job))

    def why(self, job: Job) -> str:
        """Why the job waits, restarted or stopped: one paragraph."""
        return str(self._get(self._path(job, "/why"))["text"])

    def metrics(self, job: Job, name: str = "loss", limit: int = 500) -> List[Tuple[int, float]]:
        """(step, value) of loss, grad_norm, lr, samples_per_s or step_ms."""
        return [(int(s), float(v)) for s, v in self._get(self._path(job, "/metrics"), name=name, limit=limit)["points"]]

    def nodes(self) -> List[Dict[str, Any]]:
        """The machines that jobs can run on."""
        return list(self._get("/v1/nodes")["nodes"])

    def wait(self, job: Job, timeout: Optional[float] = None) -> Row:
        """The row of the job once it is done; row["result"] is succeeded, failed or cancelled.

        TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        job = self.job(job)     # its id: the name could belong to another job by then
        while True:
            left = _ASK_S if end is None else max(0.0, end - time.monotonic())
            answer = self._get(self._path(job, "/wait"), timeout_s=min(_ASK_S, int(left)))
            if answer["done"]:
                return dict(answer["job"])
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {job['id']} ({job['name']}) is not done within {timeout:g} s")
            if left < 1:
                time.sleep(min(left, 0.05))

    def events(self, job: Job, *, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """The job's events in order, those with seq > after; with follow=True also new ones, until the job is done.

        To continue later, or in another process, pass the last one's seq as `after`."""
        path = self._path(self.job(job), "/events")
        while True:
            answer = self._get(path, after=after, limit=1000, wait_s=20 if follow else 0)
            for event in answer["events"]:
                after = int(event["seq"])
                yield event
            if len(answer["events"]) < 1000 and (not follow or (not answer["events"] and answer["state"] == "done")):
                return

    def logs(self, job: Job, *, rank: int = 0, attempt: int = 0, follow: bool = False) -> Iterator[str]:
        """A rank's output, line by line with the line feed; attempt 0: the newest.

        With follow=True also new lines, including those of later attempts, until the job is done."""
        row, rest, offset, now = self.job(job), "", 0, attempt
        while True:
            before = row
            answer = self._output(row, rank, now, offset, follow)
            moved = answer["next_offset"] > offset if answer else False
            if answer:
                now, offset = int(answer["attempt"]), max(offset, int(answer["next_offset"]))
                *lines, rest = (rest + answer["data"]).split("\n")
                for line in lines:
                    yield line + "\n"
            if moved:
                continue
            row = self.job(row) if follow else row
            if follow and not attempt and now and row["attempt"] > now:
                now, offset = now + 1, 0
            elif not follow or (before["state"] == "done" and row["state"] == "done"):
                break
        if rest:
            yield rest

    def _output(self, row: Row, rank: int, attempt: int, offset: int, follow: bool) -> Optional[Dict[str, Any]]:
        """None if there is none yet; with follow=True, after a short wait."""
        try:
            return self._get(self._path(row, "/logs"), rank=rank, attempt=attempt, offset=offset, limit=_PIECE,
                             wait_s=5 if follow else 0)
        except NotFound:
            begun = bool(row.get("attempt"))
            if begun and (not follow or row["state"] == "done" or rank >= (row.get("np") or rank + 1)):
                raise
            if follow:
                self._get(self._path(row, "/wait"), timeout_s=1)
            return None

    # ---- commands ----

    def submit(self, spec: Union[Mapping[str, Any], str, "os.PathLike[str]"], *,
               set: Optional[Mapping[str, Any]] = None, hold: bool = False, dry_run: bool = False,
               cwd: Optional[str] = None, secrets: Optional[Mapping[str, str]] = None,
               environment: Optional[Mapping[str, str]] = None, key: Optional[str] = None) -> Row:
        """Submits a job and returns its row once it is stored.

        spec         the keys of a job file as a dictionary, or the path of a file, which is read on this machine
        set          keys to change: {"train.steps": 100}
        hold         submit it held; release() starts it
        dry_run      only check it, and return its canonical spec
        cwd          where relative paths in the spec start; default: the current directory, or the home directory of a
                     login on the host
        secrets      values for the names in `secrets:`; default: this process's environment, else the host's
        environment  the job's environment; default: this process's, or that of a login on the host
        key          1 to 64 letters, digits, ".", "_" and "-": submits with the same key and spec are one job, even by
                     another process; default: a new key for each call
        """
        text, name = self._spec_text(spec)
        if isinstance(self._far, _There):
            self.version()      # connects: then the login's environment and directory are known
            name = os.path.basename(name)   # the file's folder is on this machine
        given = self._far.environment() if environment is None else dict(environment)
        body = {"spec": text, "file": name, "cwd": cwd or self._far.directory(), "environment": given,
                "set": [f"{k}={json.dumps(v)}" for k, v in (set or {}).items()]}
        canonical = self._post("/v1/jobs", {**body, "dry_run": True})["spec"]
        if dry_run:
            return dict(canonical)
        values = self._secrets(canonical.get("secrets") or [], secrets or {}, given)
        return dict(self._post("/v1/jobs", {**body, "secrets": values, "hold": hold,
                                              "key": key or uuid.uuid4().hex})["job"])

    @staticmethod
    def _spec_text(spec: Union[Mapping[str, Any], str, "os.PathLike[str]"]) -> Tuple[str, str]:
        if isinstance(spec, Mapping):
            return json.dumps(spec, ensure_ascii=False, indent=1), "spec"   # JSON is YAML
        path = os.fspath(spec)
        with open(path, encoding="utf-8") as f:
            return f.read(), path

    @staticmethod
    def _secrets(names: Sequence[str], given: Mapping[str, str], environment: Mapping[str, str]) -> Dict[str, str]:
        values = {}
        for name in names:
            value = given.get(name, os.environ.get(name, environment.get(name)))
            if value is None:
                raise Refused(f"secret {name} is not set in the environment; set it, pass secrets={{{name!r}: ...}}, or "
                              "remove it from secrets")
            values[name] = value
        return values

    def cancel(self, job: Job, reason: Optional[str] = None, *, now: bool = False) -> Row:
        """Stops the job; now=True: without a last checkpoint."""
        return dict(self._post(self._path(job, "/cancel"), {"reason": reason, "now": now or None})["job"])

    def retry(self, job: Job, *, secrets: Optional[Mapping[str, str]] = None) -> Row:
        """Submits a new job that continues where this one, which must be done, ended."""
        names = self.show(job)["spec"].get("secrets") or []
        environment = self._far.environment()
        return dict(self._post(self._path(job, "/retry"), {
            "secrets": self._secrets(names, secrets or {}, environment), "environment": environment})["job"])

    def hold(self, job: Job) -> Row:
        """Keeps a pending job from starting until release()."""
        return dict(self._post(self._path(job, "/hold"), {})["job"])

    def release(self, job: Job) -> Row:
        """Lets a held job start."""
        return dict(self._post(self._path(job, "/release"), {})["job"])

    def checkpoint(self, job: Job) -> Row:
        """Requests a checkpoint of a running `train:` job."""
        return dict(self._post(self._path(job, "/checkpoint"), {})["job"])
