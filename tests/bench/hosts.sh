#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hosts.sh BIN - how soon agents work on other hosts, compared with plain ssh to the same hosts
#
# Real sshd on this machine (tests/hosts.sh): four hosts of one job, whose programs were sent before; then
# AGENTS (64) hosts, names of one sshd, with a job each, all let go at once; and as many `ssh HOST true`
# at once. Turn by turn, ROUNDS (5) times, because a machine's speed wanders. Exit 1 if the target of four
# hosts is missed.
set -euo pipefail
BIN=$(cd "$1" && pwd)
TOP=$(cd "$(dirname "$0")/../.." && pwd)
agents=${AGENTS:-64} rounds=${ROUNDS:-5}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-bench.XXXXXX")
export BIN TOP WORK HOME=$WORK JOBCTL_HOME=$WORK/state PATH=$BIN:$PATH
. "$TOP/tests/hosts.sh"
hosts_up h1 h2 h3 h4
over() {
    hosts_down
    env -u JOBCTL_HOME "$TOP/tests/e2e/leftover.sh" "$WORK"
    rm -rf "$WORK"
}
trap over EXIT
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.3f", b - a }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] " (" v[1] " to " v[NR] ")" }'; }
port=$(sed -n 's/^Port //p' "$WORK/h1.sshd")
many=()
for k in $(seq "$agents"); do
    many+=("a$k")
    printf 'Host a%d\n  HostName 127.0.0.1\n  Port %s\n' "$k" "$port"
done >>"$HOME/.ssh/config"

echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
jobctl nodes test h1 h2 h3 h4 >/dev/null # the programs are sent

# Seconds from the submit until ranks run on all four.
cat >"$WORK/four.yaml" <<'YAML'
launch: ssh
hosts: [h1, h2, h3, h4]
resources: {nodes: 4, gpus: 0, cpus: 1}
run: "true"
YAML
four() {
    local id
    id=$(jobctl submit -q "$WORK/four.yaml" --wait)
    jobctl logs --events "$id" --json | /usr/bin/python3 -c '
import json, sys
from datetime import datetime
at = {}
for line in sys.stdin:
    e = json.loads(line)
    for e in e.get("events", [e]):
        at.setdefault(e["kind"], datetime.fromisoformat(e["at"].replace("Z", "+00:00")))
print((at["generation_started"] - at["submitted"]).total_seconds())'
}

all_began() { [ "$(find "$WORK" -maxdepth 1 -name 'began-*' | wc -l)" = "$agents" ]; }
# Seconds until `agents` of them have each started the rank of a job; all are let go at once.
each() {
    local first last k begin
    for k in "${many[@]}"; do
        printf 'launch: ssh\nhosts: [%s]\nresources: {gpus: 0, cpus: 1}\nrun: touch %s/began-$JOBCTL_JOB_ID\n' \
            "$k" "$WORK" >"$WORK/$k.yaml"
        last=$(jobctl submit -q "$WORK/$k.yaml" --hold)
        first=${first:-$last}
    done
    begin=$(now)
    jobctl hold --off "$first-$last" >/dev/null
    wait_for 600 "the ranks of all $agents jobs run" all_began
    since "$begin"
    jobctl wait "$first-$last" >/dev/null
    rm -f "$WORK"/began-*
}
plain() {
    local begin
    begin=$(now)
    printf '%s\n' "${many[@]}" | xargs -P "$agents" -I{} ssh -F "$HOME/.ssh/config" -o BatchMode=yes {} true
    since "$begin"
}
: >"$WORK/four" >"$WORK/each" >"$WORK/plain"
for _ in $(seq "$rounds"); do
    four >>"$WORK/four"
    each >>"$WORK/each"
    echo >>"$WORK/each"
    plain >>"$WORK/plain"
    echo >>"$WORK/plain"
done
took() { grep . "$WORK/$1" | median; }
echo "4 hosts, from the submit until ranks run on all: $(took four) s (target: 1.5)"
echo "$agents hosts, a job each, until the last rank runs: $(took each) s"
echo "$agents times ssh HOST true, at once: $(took plain) s"
paste "$WORK/each" "$WORK/plain" | awk -v n="$agents" 'NF == 2 {
    printf "    %.0f agents a second, %.0f ssh a second, %.2f of its rate\n", n / $1, n / $2, $2 / $1 }'
awk -v v="$(took four)" 'BEGIN { split(v, f, " "); exit !(f[1] < 1.5) }'
