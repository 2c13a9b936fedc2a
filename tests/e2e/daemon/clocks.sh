#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wall clock jumps, and the machine is suspended: no deadline, lease or back-off is affected, and each jump is
# reported once, with its size.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o clock.so "$TOP/tests/fake/clock.c" -ldl
export FAKE_CLOCK=$WORK/clock
# set_clock AHEAD SUSPENDED: in seconds, at once
set_clock() { echo "$1 $2" >clock.new && mv clock.new clock; }

# A clock that is behind the one by which it was waited for: the lease of a mirror is renewed all the same.
set_clock 3600 0
mkdir -p here there
echo "{\"origin\":\"x\",\"keep\":1,\"here\":\"$WORK/here\",\"there\":\"$WORK/there\",\"job_dir\":\"$WORK\",
 \"job\":{\"name\":\"x\",\"spec\":{}}}" >mirror.json
mkfifo orders
JOBCTL_LEASE_MS=300 LD_PRELOAD=$WORK/clock.so jobctl-agent mirror mirror.json <orders >said &
mirror=$!
exec 7>orders
wait_for "the mirror is ready" says ready cat said
beat_past() { [ "$(field beat <there/lease.json)" -gt "$1" ]; }
wait_for "the lease is renewed" beat_past "$(($(field beat <there/lease.json) + 3))"
kill "$mirror"
wait "$mirror" || true
exec 7>&-

# Forward and back by two hours while a job of one hour runs: it is told once each time, and the job runs on.
set_clock 0 0
export LD_PRELOAD=$WORK/clock.so
trap 'touch "$WORK/go"' EXIT
cat >job.yaml <<YAML
name: clocks
run: until [ -e "$WORK/go" ]; do sleep 0.05; done
max_duration: 1h
YAML
told() { [ "$(events_of 1 kind=clock text | wc -l)" = "$1" ]; }
runs_on() { job_is 1 state running && job_is 1 attempt 1; }
jobctl submit -q job.yaml
wait_event 1 kind=generation_started >/dev/null
set_clock 7200 0
wait_for "the jump is told" told 1
logged() { says "the wall clock was set $1 by 2 h 0 min" cat "$JOBCTL_HOME/jobs/1/1/agent.log"; }
wait_for "the agent logs it, too" logged forward
[ "$(last_event 1 kind=clock text)" = "the wall clock was set forward by 2 h 0 min; deadlines, back-off and max_duration do not depend on it; times shown earlier use the old clock" ]
set_clock 0 0
wait_for "the jump back is told" told 2
says 'the wall clock was set back by 2 h 0 min' last_event 1 kind=clock text
[ "$(grep -c 'warn  daemon - the wall clock was set' "$JOBCTL_HOME/daemon.log")" = 2 ]
wait_for "the agent logs it" logged back
runs_on

# The same while there is no daemon: the next one knows it of this boot, and max_duration goes on where it was.
kill -KILL "$(daemon_pid)"
set_clock 7200 0
wait_for "the jump is told by the next daemon" told 3
runs_on

# A suspended machine is told as such; nothing has been silent. Limits in hours count the time.
set_clock 7200 1800
wait_for "the suspend is told" told 4
[ "$(last_event 1 kind=clock text)" = "the machine was suspended for 30 min 0 s; limits for hangs and silence do not count this time, max_duration does" ]
runs_on

# Nothing of the jumps is in the account, and the times of the job are in the time of today.
touch go
jobctl wait 1
jobctl show 1 --json >out
json "o['goodput']['rank_s'] < 3500"
hours() { python3 -c "from datetime import datetime as d; import sys; a, b = [d.fromisoformat(t[:19]) for t in sys.argv[1:]]; print((b - a).total_seconds() / 3600)" "$@"; }
[ "$(hours $(field job.started_at job.ended_at <out) | sed 's/\..*//')" = 0 ]
told 4

# The end of the machine is as far away as before.
rm go
stop_daemon
set_clock 0 1800
end=$(python3 -c 'import time; print(int(time.time()) + 70)')
export SLURM_JOB_ID=5 SLURM_JOB_END_TIME=$end
jobctl submit -q job.yaml
wait_event 2 kind=generation_started >/dev/null
set_clock 7200 1800
wait_event 2 kind=deadline >/dev/null
last_event 2 kind=deadline text | grep 'this machine ends in [56].* s: requesting a checkpoint'
touch go
jobctl wait 2
