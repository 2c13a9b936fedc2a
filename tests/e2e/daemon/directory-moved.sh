#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job's directory is moved, replaced or removed under its agent: the agent stops the ranks, reports where the
# directory is, and writes nothing at the old path; the last step's checkpoint follows the directory, so no step is
# lost.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
home=$JOBCTL_HOME away=$WORK/away
trap 'touch "$WORK/go"' EXIT
cat >icons.yaml <<YAML
name: icons
env: {OMP_NUM_THREADS: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 100000
  sample: {after: false}
checkpoint: {every: 100000 steps}
retry: {backoff: 0.05s..0.1s}
YAML
cat >wait.yaml <<YAML
name: wait
run: until [ -e "$WORK/go" ]; do sleep 0.05; done
retry: {backoff: 0.05s..0.1s}
YAML
stepped() { [ "$(jobctl status "$1" --json | field jobs.0.step)" -gt 2 ]; }
saved() { find "$1/checkpoints" -maxdepth 1 -name 'step-*' -printf '%f\n' | sort | tail -n 1; }
# stops DAEMON AGENT: both end by themselves
both_end() { wait_for "daemon $1 and agent $2 end" ended "$1" "$2"; }

# The home is moved and another one made in its place: daemon and agent stop, with a checkpoint of the last step in
# the moved home; of the new one nothing is touched. Back in its place the job goes on with that step.
jobctl submit -q icons.yaml
wait_for "job 1 trains" stepped 1
daemon=$(daemon_answers) agent=$(agent_pid 1 1)
mv "$home" "$away"
mkdir -m 700 "$home"
both_end "$daemon" "$agent"
[ -z "$(ls -A "$home")" ]
log=$away/jobs/1/1/agent.log
says "its directory $home/jobs/1/1 was moved to $away/jobs/1/1" cat "$log"
at=$(saved "$away/jobs/1")
[ -n "$at" ]
rmdir "$home"
mv "$away" "$home"
wait_for "job 1 goes on" resumes 1 attempt=2 >/dev/null
[ "$(printf 'step-%08d' "$(wait_event 1 kind=rank_started attempt=2 | field resume_step)")" = "$at" ]
wait_event 1 kind=attempt_ended attempt=1 >/dev/null
[ "$(last_event 1 kind=attempt_ended attempt=1 cause)" = preempted ]
[ "$(last_event 1 kind=warning text)" = "warning from rank 0: the checkpoint directory $home/jobs/1/checkpoints was moved to $away/jobs/1/checkpoints; checkpoints follow it" ]

# The directory of the job alone, under a daemon that stays: the job ends, and does not begin again from nothing.
agent=$(agent_pid 1 2) daemon=$(daemon_answers)
mv "$home/jobs/1" "$away"
wait_for "agent $agent ends" ended "$agent"
code 1 jobctl wait 1
says "its directory was moved or removed while it ran: put it back as $home/jobs/1, then" jobctl why 1
gone "$home/jobs/1/spec.json"
gone "$home/jobs/1/checkpoints"
[ "$(daemon_answers)" = "$daemon" ]
at=$(saved "$away")
rm -rf "$home/jobs/1" # the history alone, which the daemon keeps
mv "$away" "$home/jobs/1"
id=$(jobctl retry 1 -q)
wait_for "job $id goes on" resumes "$id" >/dev/null
[ "$(printf 'step-%08d' "$(wait_event "$id" kind=rank_started | field resume_step)")" = "$at" ]
jobctl cancel "$id"
jobctl wait "$id" || true

# The directory of an attempt is replaced: its agent leaves, the next attempt has a directory of its own.
id=$(jobctl submit -q wait.yaml)
wait_event "$id" kind=generation_started >/dev/null
agent=$(agent_pid "$id" 1)
mv "$home/jobs/$id/1" "$away"
mkdir -m 700 "$home/jobs/$id/1"
wait_for "agent $agent ends" ended "$agent"
wait_event "$id" kind=generation_started attempt=2 >/dev/null
[ -z "$(ls -A "$home/jobs/$id/1")" ]
says "was moved to $away, and another one is in its place" cat "$away/agent.log"
touch go
jobctl wait "$id"
rm go

# The home is removed: nothing of it comes back, and nothing of it runs on.
id=$(jobctl submit -q icons.yaml)
wait_for "job $id trains" stepped "$id"
daemon=$(daemon_answers) agent=$(agent_pid "$id" 1)
pid=$(wait_event "$id" kind=generation_started | field pids)
wait_for "the home is removed" rm -rf "$home"
both_end "$daemon" "$agent"
wait_for "rank $pid ends" ended "$pid"
gone "$home"
