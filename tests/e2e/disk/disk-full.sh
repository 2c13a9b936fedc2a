#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The store cannot grow: a submit is refused with one sentence, answered requests are stored, refused ones are not, and
# the daemon keeps running.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"

printf 'run: "true"\nenv: {FILL: "%s"}\n' "$(head -c 20000 /dev/zero | tr '\0' x)" >job.yaml
(ulimit -f 1024 && jobctl daemon --detach)
daemon=$(daemon_answers)
taken=0
rc=0
while [ $taken -lt 200 ]; do
    jobctl submit job.yaml --hold -q >id 2>said || { rc=$?; break; }
    taken=$((taken + 1))
    [ "$(cat id)" = $taken ]
done
[ $rc = 4 ] || { echo "$taken taken, exit $rc"; cat said; exit 1; }
[ $taken -gt 3 ]
grep -q 'store error' said

# Several at once are refused together.
for i in 1 2 3 4; do
    (jobctl submit job.yaml --hold -q >/dev/null 2>&1 && touch "took.$i") &
done
wait
[ -z "$(ls took.* 2>/dev/null)" ]
[ "$(daemon_answers)" = "$daemon" ]
[ "$(jobctl status -q | wc -l)" = $taken ] || { jobctl status -q; exit 1; }

# There is room again: nothing is missing, no id is used twice, and it goes on.
kill -TERM "$daemon"
wait_for "daemon $daemon ends" ended "$daemon"
[ "$(jobctl status -q | wc -l)" = $taken ]
next=$(jobctl submit job.yaml -q)
[ "$next" -gt $taken ]
jobctl wait "$next" --timeout 30
