#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py FOLDER VERSION OUT - a wheel of the installed files in FOLDER, into OUT

pip puts bin, lib and share of FOLDER into the folder of its Python environment, where programs find each other as
after `make install`, and the client where `import jobctl` finds it.  A wheel holds no links, so those in bin become
scripts.  Its name says which C library it needs: that of this machine, or newer.
"""
import base64
import csv
import hashlib
import io
import os
import platform
import re
import sys
import time
import zipfile
from pathlib import Path

SCRIPT = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/{0}" "$@"\n'
METADATA = """Metadata-Version: 2.1
Name: jobctl
Version: {0}
Summary: starts training jobs, watches them, explains and resumes them after failures
License: Apache-2.0
Requires-Python: >=3.9
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: jobctl\nRoot-Is-Purelib: false\nTag: py3-none-{0}\n"

top, version, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
libc = int(os.confstr("CS_GNU_LIBC_VERSION").rpartition(".")[2])
tag = f"manylinux_2_{libc}_{platform.machine()}"
info, data = f"jobctl-{version}.dist-info", f"jobctl-{version}.data"

files = {}  # name in the wheel: bytes, may be run
for path in top.rglob("*"):
    name = path.relative_to(top).as_posix()
    if path.is_symlink():
        files[f"{data}/scripts/{path.name}"] = SCRIPT.format(os.readlink(path)).encode(), True
    elif path.is_file() and not name.startswith("lib/systemd/"):
        files[f"{data}/data/{name}"] = path.read_bytes(), bool(path.stat().st_mode & 0o100)
for name in ("jobctl.py", "jobctl_progress.py"):
    files[name] = files[f"{data}/data/share/jobctl/templates/{name}"]
files[f"{info}/METADATA"] = METADATA.format(version).encode(), False
files[f"{info}/WHEEL"] = WHEEL.format(tag).encode(), False
files[f"{info}/LICENSE"] = files[f"{data}/data/share/doc/jobctl/LICENSE"]

for name, (content, _) in files.items():
    needs = max(map(int, re.findall(rb"\0GLIBC_2\.(\d+)", content)), default=0) if content[:4] == b"\x7fELF" else 0
    if needs > libc:
        sys.exit(f"wheel.py: {name} needs glibc 2.{needs}, which {tag} does not have; build it on this machine")

record = io.StringIO()
rows = csv.writer(record, lineterminator="\n")
for name in sorted(files):
    digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
    rows.writerow((name, f"sha256={digest}", len(files[name][0])))
rows.writerow((f"{info}/RECORD", "", ""))

wheel = out / f"jobctl-{version}-py3-none-{tag}.whl"
date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(wheel, "w") as archive:
    for name in [*sorted(files), f"{info}/RECORD"]:
        content, runs = files.get(name, (record.getvalue().encode(), False))
        entry = zipfile.ZipInfo(name, date)
        entry.external_attr = (0o100755 if runs else 0o100644) << 16
        archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
print(f"  {wheel}")
