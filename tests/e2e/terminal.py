# SPDX-License-Identifier: Apache-2.0
"""terminal.py - a command on a terminal of its own: terminal.py [COLUMNSxLINES] STEP... -- COMMAND...

A step is +TEXT: wait until the terminal shows it (after what the steps before have matched), or =KEYS: type them;
\\n is Enter, ^C Ctrl-C.  What the terminal showed goes to stdout; the exit code is the command's, 99 where a text
did not come within 60 s (TEST_PATIENCE times)."""
import fcntl, os, pty, select, struct, sys, termios, time

words = sys.argv[1:]
size = [24, 80]
if "x" in words[0] and words[0].replace("x", "").isdigit():
    size = [int(n) for n in reversed(words.pop(0).split("x"))]
end = words.index("--")
steps, command = words[:end], words[end + 1:]
limit = time.monotonic() + 60 * int(os.environ.get("TEST_PATIENCE", "1"))

master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
pid = os.fork()
if pid == 0:
    os.environ.pop("COLUMNS", None)
    os.environ["TERM"] = "xterm"
    os.close(master)
    os.login_tty(slave)
    os.execvp(command[0], command)
os.close(slave)
shown, seen = b"", 0


def read_more():
    """False at the end of the output."""
    global shown
    if not select.select([master], [], [], 0.2)[0]:
        return True
    try:
        data = os.read(master, 65536)
    except OSError:
        return False
    shown += data
    return bool(data)


def wait_for(text):
    global seen
    more = True
    while (at := shown.find(text, seen)) < 0:
        if not more or time.monotonic() > limit:
            sys.stdout.buffer.write(shown)
            print(f"\nnot shown: {text.decode()}")
            os.kill(pid, 9)
            sys.exit(99)
        more = read_more()
    seen = at + len(text)


for step in steps:
    if step[0] == "+":
        wait_for(step[1:].encode())
    else:
        os.write(master, step[1:].replace("\\n", "\n").replace("^C", "\x03").replace("^D", "\x04").encode())
while read_more():
    if time.monotonic() > limit:
        os.kill(pid, 9)
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
