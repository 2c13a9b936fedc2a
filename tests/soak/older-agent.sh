#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The real agent of an earlier version, built from its commit, runs while this version takes over: its
# training is adopted, or told apart and gone on with by an agent of ours; then it is told to stop.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
log_has() { grep -q "$1" "$JOBCTL_HOME/daemon.log"; }
soon() { # MESSAGE COMMAND...
    wait_for "$@" || { cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME"/jobs/1/*/agent.log; exit 1; }
}
checkpoints() { ls "$JOBCTL_HOME/jobs/1/checkpoints" | grep -c '^step-'; }
more_than() { [ "$(jobctl events 1 | grep -c 'checkpoint of step')" -gt "$1" ]; }
cat >train.yaml <<'YAML'
name: older
resources: {ranks: 1, cpus: 1, gpus: 0}
train:
  model: {preset: tiny}
  data: {encoders: synthetic, resolution: 128}
  batch: {global: 8}
  steps: 100000000
  sample: {after: false}
checkpoint: {every: 100 steps}
retry: {backoff: 0.05s..0.1s}
YAML

tried=
for fixture in "$TOP"/tests/fixtures/*/; do
    version=$(basename "$fixture") old=$WORK/older
    git -C "$TOP" cat-file -e "$version^{commit}" 2>/dev/null || continue
    tried="$tried $version"
    mkdir "$old"
    git -C "$TOP" archive "$version" | tar x -C "$old"
    make -C "$old" -j"$(nproc)" NVCC= build/bin/jobctl build/bin/jobctl-agent build/bin/jobctl-train >make.log 2>&1 ||
        { tail -n 20 make.log; exit 1; }
    # Until its daemon has ended by its own commands: it may answer in an older schema.
    now=$PATH
    PATH=$old/build/bin:$now
    jobctl daemon --detach
    jobctl submit -q train.yaml
    soon "two checkpoints" more_than 1
    daemon=$(daemon_pid)
    PATH=$now
    agent=$(field pid <"$JOBCTL_HOME/jobs/1/1/agent.json")
    kill -KILL "$daemon"
    soon "the daemon ends" ended "$daemon"
    rm "$JOBCTL_HOME/daemon.log"
    jobctl daemon --detach
    soon "the agent is adopted or told apart" log_has 'speaks protocol version\|agent connected'
    alive "$agent"
    if log_has 'agent connected'; then
        # Its programs are replaced while it runs, as an installation does; the next generation has ours.
        cp "$BIN/jobctl-train" "$old/build/bin/new"
        mv "$old/build/bin/new" "$old/build/bin/jobctl-train"
        known=$(jobctl events 1 | grep -c 'checkpoint of step')
        soon "one more checkpoint" more_than "$known"
        kill -KILL "$(last_event 1 kind=generation_started pids)"
        soon "generation 2" job_is 1 generation 2
        known=$(jobctl events 1 | grep -c 'checkpoint of step')
        soon "one more checkpoint" more_than "$known"
        [ "$(field pid <"$JOBCTL_HOME/jobs/1/1/agent.json")" = "$agent" ]
        echo "the agent of $version is adopted"
    else
        kill -KILL "$agent"
        soon "attempt 2" job_is 1 attempt 2
        known=$(jobctl events 1 | grep -c 'checkpoint of step')
        soon "one more checkpoint" more_than "$known"
        echo "the agent of $version is told apart"
    fi
    jobctl cancel 1 -q
    code 3 jobctl wait 1 --timeout 60
    soon "the agent ends" ended "$agent"
    stop_daemon
    rm -rf "$JOBCTL_HOME" "$old"
done
[ -n "$tried" ] || { echo "this clone has no commit of tests/fixtures: git fetch --unshallow"; exit 77; }
