# SPDX-License-Identifier: Apache-2.0
# Counts (does not time) how often daemon and agents wait for the disk per job: events of one turn of the loop are
# committed together, and an agent syncs once what it sends together. tests/attack checks that everything survives a
# power cut.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
library=$(dirname "$BIN")/obj/tests/attack/faults.so
[ -e "$library" ] || { echo "tests/attack/faults.so is not built: make e2e builds it"; exit 77; }
JOBS=6

printf 'name: one\nrun: "true"\n' >one.yaml

# count PROGRAM: its fsync and fdatasync below the home, for JOBS jobs, one after the other
count() {
    export JOBCTL_HOME=$WORK/home-$2
    LD_PRELOAD=$library FAULTS=$WORK/page-$2 python3 - "$TOP/tests/attack" "$1" "$JOBS" <<'END'
import os
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
from faults_page import Page

page = Page(os.environ["FAULTS"])


def jobctl(*words):
    subprocess.run(["jobctl", *words], check=True, stdout=subprocess.DEVNULL)


def job():
    jobctl("submit", "-q", "one.yaml")
    jobctl("wait", "last")


jobctl("daemon", "--detach")
job()
page.arm(sys.argv[2], os.path.realpath(os.environ["JOBCTL_HOME"]), ["sync"])
for _ in range(int(sys.argv[3])):
    job()
page.disarm()
print(page.calls)
END
    stop_daemon
}

# at_most LIMIT N WHAT: for each job
at_most() {
    echo "$3: $2 for $JOBS jobs"
    [ "$2" -gt 0 ] && [ "$2" -le $(($1 * JOBS)) ]
}
# The daemon: submitted, placed, connected, running, over; and job.json when it is placed and over. One job may need one
# commit more where a turn of the agent's loop ends early.
daemon=$(count "jobctl daemon" daemon)
at_most 8 "$daemon" "commits of the daemon"
# The agent: its identity, what it has planned and started, its end.
agent=$(count "jobctl-agent run" agent)
at_most 4 "$agent" "syncs of the agents"
