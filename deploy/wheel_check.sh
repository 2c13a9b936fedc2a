#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_check.sh WHEEL [PYTHON] - install the wheel into a new venv of this Python, use it there, and remove it
#
# As a plain user, without network.  The client finds its programs without PATH.
set -euo pipefail
wheel=$(readlink -f "$1") python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
venv="$dir/a venv"
daemon() { "$venv/bin/jobctl" daemon stop >/dev/null 2>&1 || :; }
trap 'daemon; rm -rf "$dir"' EXIT
fail() { echo "error: $1" >&2; exit 1; }
export HOME=$dir PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYTHONHOME JOBCTL_HOST JOBCTL_HOME XDG_STATE_HOME

"$python" -m venv "$venv"
(cd "$venv" && find . ! -type d | sort) >"$dir/before"
"$venv/bin/python" -m pip --disable-pip-version-check install -q --no-index "$wheel"
"$venv/bin/jobctl" --version | grep -q "^jobctl $(cut -d- -f2 <<<"${wheel##*/}")\$" || fail "another version"
"$here/dist_check.sh" "$venv"
(cd "$dir" && "$venv/bin/python" -) <<'PY'
import jobctl

with jobctl.Client() as c:
    job = c.submit({"name": "pip", "run": "echo it runs", "resources": {"gpus": 0}})
    assert c.wait(job)["result"] == "succeeded", c.why(job)
    assert list(c.logs(job)) == ["it runs\n"]
PY
daemon
"$venv/bin/python" -m pip --disable-pip-version-check check
"$venv/bin/python" -m pip --disable-pip-version-check uninstall -q -y jobctl
(cd "$venv" && find . ! -type d | sort) | diff "$dir/before" - || fail "pip left these behind"
