# SPDX-License-Identifier: Apache-2.0
# open.sh - how a test with a real Slurm begins: NODES=2; . "$TOP/tests/slurm/open.sh"
#
# Skips itself with a sentence where there is no Slurm; else a cluster of NODES (1) runs, ends with the test,
# and SLURM_CONF and the directory are those of the test.

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
# until_says TEXT COMMAND...: its output has TEXT, within a minute or PATIENCE_S; it is in $WORK/out
until_says() {
    local text=$1
    shift
    for _ in $(seq $((10 * ${PATIENCE_S:-60}))); do
        "$@" >"$WORK/out" 2>&1 || true
        ! grep -qF -- "$text" "$WORK/out" || return 0
        sleep 0.1
    done
    echo "never said '$text': $*"
    cat "$WORK/out"
    tell_all
    return 1
}
# slurm_id JOB: the number that Slurm has given its newest attempt
slurm_id() { squeue -h -a -o "%i %k" | sed -n "s/^\([0-9]*\) jobctl:$1\..*/\1/p" | tail -n 1; }
# trains JOB: it makes steps, more than it has made
step_of() { jobctl show "$1" --json | grep -o '"step":[0-9]*' | head -n 1 | cut -d: -f2; }
trains() {
    local before
    before=$(step_of "$1")
    for _ in $(seq $((10 * ${PATIENCE_S:-60}))); do
        [ "$(step_of "$1")" -le $((${before:-0} + 5)) ] || return 0
        sleep 0.1
    done
    echo "job $1 trains no more"
    tell_all
    return 1
}
# resumed JOB: from which step its newest ranks went on, when that is not the first
resumed() {
    for _ in $(seq $((10 * ${PATIENCE_S:-60}))); do
        local from
        from=$(jobctl events "$1" --json | sed 's/{"seq":/\n&/g' | grep '"rank_started"' |
               sed -n 's/.*"resume_step":\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
        [ "${from:-0}" -eq 0 ] || { echo "$from"; return 0; }
        sleep 0.1
    done
    jobctl events "$1" >&2
    return 1
}
# dropped JOB: cancelled, and gone
dropped() { jobctl cancel "$1"; code 3 jobctl wait "$1" --timeout 120; }
agent_pid() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$JOBCTL_HOME/jobs/$1/$2/agent.json"; }
alive() { grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null; }
# kill_daemon: with SIGKILL, and nothing is left of it: what is started then is another
kill_daemon() {
    local pid
    pid=$(daemon_pid)
    kill -KILL "$pid"
    while alive "$pid"; do sleep 0.02; done
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
