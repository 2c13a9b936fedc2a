#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh BIN - how soon the engine trains again after a rank was killed, and how soon a hang is detected
#
# FAULTS (5) times each, on one job of 2 ranks: a rank is killed with SIGKILL, then one is stopped with SIGSTOP.
# Steps take about 50 ms on 2 quiet cores; the step time is printed.  Exit 1 if a target is missed.
set -euo pipefail
BIN=$(cd "$1" && pwd)
TOP=$(cd "$(dirname "$0")/../.." && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-bench.XXXXXX")
faults=${FAULTS:-5}
export HOME=$WORK JOBCTL_HOME=$WORK/state PATH=$BIN:$PATH TOP WORK
over() {
    jobctl cancel --now 1 >/dev/null 2>&1 || :
    env -u JOBCTL_HOME "$TOP/tests/e2e/leftover.sh" "$WORK"
    rm -rf "$WORK"
}
trap over EXIT
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
cat >icons.yaml <<YAML
name: icons
resources: {ranks: 2, gpus: 0, cpus: 1}
train:
  model: {preset: icons, depth: 1}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 1000000
  sample: {after: false}
checkpoint: {every: 100000 steps}
retry: {max: 1000, no_progress: 1000}
YAML
echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
jobctl submit -q icons.yaml >/dev/null
until_step 1 15
echo "$(show_ms 1) ms a step"

# fault SIGNAL GENERATION EVENT: milliseconds from the signal to the event, and to a step of the next generation
fault() {
    local before next=$(($2 + 1)) seen
    before=$(date +%s%3N)
    kill "-$1" "$(rank_pid 1 1)"
    wait_event 1 "kind=$3" "generation=$2" >seen
    seen=$(($(date -d "$(field at <seen)" +%s%3N) - before))
    WAIT_PAUSE_S=0.005 until_step 1 1 "$next"
    echo "$seen $(($(date +%s%3N) - before))"
    until_step 1 15 "$next"
}
# table WHAT LIMIT COLUMN FILE: the median of a column against its target
table() {
    sort -n -k "$3,$3" "$4" | awk -v what="$1" -v limit="$2" -v column="$3" '{ t[NR] = $column }
        END {
            median = t[int((NR + 1) / 2)]
            word = median < limit ? "reached" : "missed"
            printf "%s after %d ms in the median, %d ms at most (target < %d ms: %s)\n", what, median, t[NR], limit, word
            exit word == "missed"
        }'
}
generation=1 missed=0
for _ in $(seq "$faults"); do
    fault KILL $generation generation_ended >>killed
    generation=$((generation + 1))
done
for _ in $(seq "$faults"); do
    fault STOP $generation hang >>stopped
    generation=$((generation + 1))
done
table "killed: noticed" 50 1 killed || missed=1
table "killed: a step of the next generation" 500 2 killed || missed=1
table "stopped: told as a hang" 6000 1 stopped || missed=1
table "stopped: a step of the next generation" 10000 2 stopped || missed=1
exit $missed
