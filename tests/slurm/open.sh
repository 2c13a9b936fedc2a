# SPDX-License-Identifier: Apache-2.0
# open.sh - how a test with a real Slurm begins: NODES=2; . "$TOP/tests/slurm/open.sh"
#
# Skips the test with a message if there is no Slurm; otherwise starts a cluster of NODES (1) that ends with the test,
# and sets SLURM_CONF and the test's directory.

[ -x "$BIN/jobctl-slurm" ] || { echo "jobctl-slurm is not built: no libslurm on this machine"; exit 77; }
. "$TOP/tests/e2e/expect.sh"
cluster() { "$TOP/tests/slurm/cluster.sh" "$WORK/slurm" "$@"; }
trap 'cluster stop' EXIT
opened=0
cluster start "${NODES:-1}" || opened=$?
[ "$opened" = 0 ] || exit "$opened"
export SLURM_CONF=$WORK/slurm/slurm.conf
cd "$WORK"

# tell_all: what there is to read after a failure
tell_all() {
    cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME"/jobs/*/*/slurm.log "$JOBCTL_HOME"/jobs/*/*/*.log \
        "$JOBCTL_HOME"/jobs/*/*/node*/*.log 2>/dev/null | grep -v " checkpoint$\|^checkpoint: " | tail -n 50
}
# heard JOB WORDS: so its agent is connected
heard() { case $(job_field "$1" agent_channel) in "$2"*) ;; *) return 1 ;; esac; }
# slurm_id JOB: the number that Slurm has given its newest attempt
slurm_id() { squeue -h -a -o "%i %k" | sed -n "s/^\([0-9]*\) jobctl:$1\..*/\1/p" | tail -n 1; }
# trains JOB: it makes steps, more than it has made
step_is_over() { local step; step=$(job_field "$1" step) && [ "${step/null/0}" -gt "$2" ]; }
trains() {
    local before
    before=$(job_field "$1" step)
    wait_for "job $1 trains on" step_is_over "$1" $((${before/null/0} + 5)) || { tell_all; return 1; }
}
# resumed JOB: from which step its newest ranks went on, when that is not the first
resumed() {
    wait_for "job $1 resumes" resumes "$1" || { jobctl logs --events "$1" >&2; return 1; }
    resumes "$1" | sort -n | tail -n 1
}
# dropped JOB: cancelled, and gone
dropped() { jobctl cancel "$1"; code 3 jobctl wait "$1" --timeout 120; }
# kill_daemon: with SIGKILL, and nothing is left of it: what is started then is another
kill_daemon() {
    local pid
    pid=$(daemon_pid)
    kill -KILL "$pid"
    wait_for "daemon $pid ends" ended "$pid"
}
# places FILE: where the text of FILE (one line) is to be found: files below $WORK, and processes by name
places() {
    python3 - "$1" "$WORK" <<'PY'
import glob, os, sys
secret = open(sys.argv[1], "rb").read().strip()
assert secret
def has(path):
    try:
        return secret in open(path, "rb").read()
    except OSError:
        return False
found = {os.path.relpath(os.path.join(d, f), sys.argv[2]) for d, _, names in os.walk(sys.argv[2])
         for f in names if os.path.isfile(os.path.join(d, f)) and has(os.path.join(d, f))}
for p in glob.glob("/proc/[0-9]*"):
    if has(p + "/environ") or has(p + "/cmdline"):
        try:
            found.add("process " + open(p + "/comm").read().strip())
        except OSError:
            pass
print(*sorted(found - {os.path.relpath(sys.argv[1], sys.argv[2])}), sep="\n")
PY
}
