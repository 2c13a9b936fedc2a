# SPDX-License-Identifier: Apache-2.0
# faults_page.py - the page of faults.h from the driver's side: which calls fail, and what has failed
import errno
import mmap
import struct

KINDS = {"write": 1, "sync": 2, "rename": 4, "create": 8, "open": 16, "resize": 32, "remove": 64, "read": 128,
         "descriptor": 256, "process": 512, "memory": 1024, "look": 2048}
SITES, SHORT, ALWAYS = 1 << 14, 1000, 1 << 62
# offsets of struct faults
AT_KINDS, AT_ERROR, AT_FROM, AT_UNTIL, AT_CALLS, AT_HITS, AT_FIND, AT_N_SITES = 0, 4, 8, 16, 24, 32, 40, 44
AT_PROGRAM, AT_BELOW, AT_WHAT, AT_CRASH, AT_SITES = 48, 112, 1136, 2032, 2160
AT_SEEN = AT_SITES + 4 * SITES
SIZE = AT_SEEN + 8 * SITES


class Page:
    def __init__(self, path):
        with open(path, "w+b") as f:
            f.truncate(SIZE)
            self.map = mmap.mmap(f.fileno(), SIZE)
        self.path = path

    def _put(self, how, at, value):
        struct.pack_into(how, self.map, at, value)

    def _get(self, how, at):
        return struct.unpack_from(how, self.map, at)[0]

    def _text(self, at, size):
        return self.map[at:at + size].split(b"\0")[0].decode(errors="replace")

    def arm(self, program, below, kinds, error="EIO", first=0, times=1, find_sites=False):
        """From now on call `first` of these fails, and times - 1 after it; first 0: they are only counted."""
        self._put("I", AT_KINDS, 0)
        self.map[AT_WHAT:AT_SEEN + 8 * SITES] = bytes(AT_SEEN + 8 * SITES - AT_WHAT)
        self._put("64s", AT_PROGRAM, program.encode())
        self._put("1024s", AT_BELOW, below.encode())
        self._put("I", AT_ERROR, SHORT if error == "short" else getattr(errno, error))
        self._put("Q", AT_FROM, first or ALWAYS)
        self._put("Q", AT_UNTIL, first + times if first else ALWAYS)
        for at in (AT_CALLS, AT_HITS):
            self._put("Q", at, 0)
        self._put("I", AT_N_SITES, 0)
        self._put("I", AT_FIND, int(find_sites))
        self._put("I", AT_KINDS, sum(KINDS[k] for k in kinds))

    def disarm(self):
        self._put("I", AT_KINDS, 0)

    @property
    def calls(self):
        return self._get("Q", AT_CALLS)

    @property
    def hits(self):
        return self._get("Q", AT_HITS)

    @property
    def what(self):
        return self._text(AT_WHAT, 896)

    @property
    def crash(self):
        return self._text(AT_CRASH, 128)

    @property
    def sites(self):
        n = min(self._get("I", AT_N_SITES), SITES)
        return sorted(struct.unpack_from("%dI" % n, self.map, AT_SITES))
