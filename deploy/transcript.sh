#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transcript.sh [BIN] - run the job of README.md, stop a rank, break it in eight ways, and write what was printed into it
#
# Between "<!-- transcript -->" and "<!-- end -->" comes a session of submit, status, a failure and why; between
# "<!-- drill -->" and "<!-- end -->" the table of jobctl drill.  README.zh-CN.md gets the same; everything else of both
# stays.  Where Chromium is, docs/dashboard-job.png is taken anew.  Two minutes; run it on a quiet machine, look at the
# difference, and commit it.
# PRINT=1 prints both and changes nothing.  BIN is the folder of the programs.
set -Eeuo pipefail
trap 'echo "transcript.sh: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$(dirname "$0")/.."
top=$PWD
bin=$(cd "${1:-build/bin}" && pwd)
work=/tmp/me            # paths of files are in what is printed
mkdir -m 700 "$work"
export PATH=$bin:$PATH JOBCTL_HOME=$work/.local/state/jobctl COLUMNS=100
unset JOBCTL_HOST
trap 'jobctl cancel -q --now icons >"$work/cancelled" 2>&1 || :; jobctl daemon stop >"$work/stopped" 2>&1 || :; rm -rf "$work"' EXIT
mkdir "$work/icons"
cd "$work/icons"
cp -R "$top/templates/data/tango-icons" pictures

cat >icons.yaml <<'END'
name: icons
resources: {gpus: 0, ranks: 2}
train:
  model: {preset: icons}
  data: {path: pictures, dct_block: 8}
  batch: {global: 16}
  steps: 2000
  sample: {after: false}
END

# a field of the job by Python, such as o["job"]["step"]
field() { jobctl show icons --json | python3 -c 'import json, sys; o = json.load(sys.stdin); print('"$1"')'; }
# until CONDITION, at most two minutes
until_true() {
    local end=$((SECONDS + 120))
    until [ "$(field "$1" 2>&1)" = True ]; do
        [ $SECONDS -lt $end ] || { echo "transcript.sh: this did not become true: $1" >&2; exit 1; }
        sleep 0.2
    done
}
# typed COMMAND... - as a user types it into a terminal of 96 columns, with what it prints
typed() {
    echo "    \$ $*"
    NO_COLOR=1 script -qec "stty cols 96; $*" /dev/null </dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/^/    /; s/ *$//'
}

{
    typed cat icons.yaml
    typed jobctl submit icons.yaml
    until_true '(o["job"]["step"] or 0) >= 100'
    typed jobctl status
    pid=$(field 'o["attempts"][-1]["generations"][-1]["pids"][1]')
    echo "    \$ kill -STOP PID     # of rank 1: what a stuck GPU or file system looks like"
    kill -STOP "$pid"
    until_true 'o["job"]["generation"] == 2 and o["job"]["step"] >= 150'
    typed jobctl status
    typed jobctl why icons
} >"$work/transcript"
if [ -z "${PRINT:-}" ] && command -v chromedriver >"$work/found"; then
    until_true 'o["job"]["step"] >= 250'
    jobctl dashboard >"$work/link"
    HOME=$work /usr/bin/python3 "$top/deploy/dashboard_picture.py" "$JOBCTL_HOME/dashboard.html" 1 "$top/docs/dashboard-job.png"
fi
jobctl cancel -q --now icons >"$work/cancelled"
jobctl wait icons >"$work/waited" 2>&1 || :
{
    echo "    \$ jobctl drill icons.yaml"
    jobctl drill icons.yaml 2>"$work/drilled" | awk '{ print "    " (length > 96 ? substr($0, 1, 93) "..." : $0) }'
} >"$work/drill"

# put NAME FILE - in place of what is between <!-- NAME --> and the next <!-- end -->
put() {
    local page
    for page in README.md README.zh-CN.md; do
        awk -v mark="<!-- $1 -->" -v file="$2" '
        $0 == mark { print; print ""; while ((getline line < file) > 0) print line; print ""; skip = 1; done = 1 }
        $0 == "<!-- end -->" { skip = 0 }
        !skip { print }
        END { exit !done }' "$top/$page" >"$work/$page"
        cat "$work/$page" >"$top/$page"
    done
}
[ -z "${PRINT:-}" ] || { cat "$work/transcript" "$work/drill"; exit; }
put transcript "$work/transcript"
put drill "$work/drill"
