# SPDX-License-Identifier: Apache-2.0
# Finished jobs are removed: what would be deleted is reported first, valuable files stay, and a removal that a killed
# daemon had started is finished by the next one.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
unset JOBCTL_TEST_DIE_AT_EVENT
jobs=$JOBCTL_HOME/jobs
rows() { python3 - "$JOBCTL_HOME/jobs.db" "$1" <<'END'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
tables = "specs events attempts checkpoints metrics goodput".split()
print(sum(db.execute(f"SELECT count(*) FROM {t} WHERE job={sys.argv[2]}").fetchone()[0] for t in tables)
      + db.execute(f"SELECT count(*) FROM jobs WHERE id={sys.argv[2]}").fetchone()[0])
END
}

# Wrong calls.
code 2 jobctl remove
code 2 jobctl prune 7
code 2 jobctl prune --result sucessful
has '--result: "sucessful" is not one of succeeded, failed and cancelled' err
code 2 jobctl prune --older-than soon
code 3 jobctl remove 99
has "job 99 does not exist" err

# 1 is plain, 2 has checkpoints of its own, 3 and 4 elsewhere, 5 will be retried, 6 runs.
printf 'name: plain\nrun: echo hello\nresources: {cpus: 1}\n' >plain.yaml
printf 'name: saves\nrun: "mkdir -p $JOBCTL_CKPT_DIR; echo weights >$JOBCTL_CKPT_DIR/weights"\nresources: {cpus: 1}\n' >saves.yaml
printf 'name: fails\nrun: "mkdir -p $JOBCTL_CKPT_DIR; echo w >$JOBCTL_CKPT_DIR/w; exit 9"\nresources: {cpus: 1}\nretry: {max: 0}\n' >fails.yaml
printf 'name: runs\nrun: sleep 600\nresources: {cpus: 1}\n' >runs.yaml
mkdir chosen precious
echo mine >chosen/mine
echo mine >precious/mine
jobctl submit -q plain.yaml >ids
jobctl submit -q saves.yaml >>ids
jobctl submit -q --set checkpoint.dir="$WORK/chosen" saves.yaml >>ids
jobctl submit -q saves.yaml >>ids
jobctl submit -q fails.yaml >>ids
jobctl wait 1-5 >waited || true

# An empty directory of checkpoints, which takes a block on some file systems, is not told as one that stays.
code 0 jobctl remove --dry-run 1
lacks checkpoints out
code 0 jobctl remove --dry-run 2
has 'checkpoints stay in' out
for made in "$jobs/2/checkpoints/weights" chosen/weights "$jobs/5/checkpoints/w"; do [ -e "$made" ]; done
jobctl submit -q runs.yaml >>ids
code 3 jobctl remove 6
has "only done jobs can be removed. Stop it first: jobctl cancel 6" err

# A dry run names what would go and what would stay, and changes nothing.
code 0 jobctl remove --dry-run 1 2
has "job 1 (plain) would be removed: " out
has " in $jobs/2" out
has "  checkpoints stay in $jobs/2/checkpoints: " out
has "2 jobs, " out
code 0 jobctl remove --dry-run --checkpoints --json 2
json 'o["dry_run"] and o["jobs"][0]["bytes"] > 4096 and o["jobs"][0]["checkpoints"]["kept"] is False'
for still in "$jobs/1/1/rank0.log" "$jobs/2/checkpoints/weights"; do [ -e "$still" ]; done
[ "$(rows 1)" -gt 5 ]

# A link goes, and what it leads to stays: in the job's directory, for its checkpoints, for an attempt.
ln -s "$WORK/precious" "$jobs/1/1/link"
ln -s "$WORK/precious" "$jobs/1/2"
rm -r "$jobs/4/checkpoints"
ln -s "$WORK/precious" "$jobs/4/checkpoints"
code 0 jobctl remove --checkpoints 1 4
gone "$jobs/1"
gone "$jobs/4"
[ "$(ls precious)" = mine ]
[ "$(rows 1)" = 0 ]
for ask in show why status logs retry remove; do
    code 3 jobctl $ask 1
    has "job 1 (plain) was removed on 20" err
done

# Checkpoints stay unless they are asked for; a directory that somebody chose always does.
code 0 jobctl remove 2
has "checkpoints stay in $jobs/2/checkpoints" out
[ "$(cat "$jobs/2/checkpoints/weights")" = weights ]
[ "$(ls "$jobs/2")" = checkpoints ]
code 3 jobctl why 2
has "its checkpoints are still in $jobs/2/checkpoints" err
code 0 jobctl remove --checkpoints 3
[ "$(cat chosen/weights chosen/mine)" = "$(printf 'weights\nmine')" ]
gone "$jobs/3"

# What others need stays: checkpoints that a later job took over, a job that another starts after.
code 0 jobctl retry -q 5
jobctl wait 7 >waited || true
code 3 jobctl remove --checkpoints 5
has "job 7 uses files in $jobs/5: remove that job first, or omit --checkpoints" err
jobctl submit -q plain.yaml >>ids
jobctl wait 8 >waited
jobctl submit -q --hold --set 'after=[8]' plain.yaml >>ids
code 3 jobctl remove 8 99
code 3 jobctl remove 5 8
has "job 9 (plain) depends on job 8 and is not done" err
has "job 5 (fails) is removed" out
[ -e "$jobs/5/checkpoints/w" ]
code 0 jobctl cancel 6 9
jobctl wait 6 9 >waited || true

# The daemon is killed when the rows are gone and no file is; the next one ends it.
stop_daemon
JOBCTL_TEST_DIE_AT_EVENT=1 jobctl daemon --detach
code 4 jobctl remove 8
[ -e "$jobs/8/1/rank0.log" ]
code 0 jobctl status -a -q
[ "$(tr '\n' ' ' <out)" = "9 7 6 " ]
wait_for "the files of the job go" gone "$jobs/8"
code 3 jobctl remove 8
has "job 8 (plain) was removed on 20" err
[ "$(rows 8)" = 0 ]

# prune: told first, and asked; only what fits all that is given.
code 2 jobctl prune --older-than 0
has "would be removed" out
has "stdin is not a terminal" err
code 0 jobctl prune --older-than 0 --dry-run --json
json 'len(o["jobs"]) > 1 and all(j["bytes"] > 4096 for j in o["jobs"])'
code 0 jobctl prune
has "No job matches" out
code 0 jobctl prune --older-than 0 --keep 1 --result cancelled --dry-run
has "job 6 (runs) would be removed" out
lacks "job 7" out
lacks "job 9" out
code 0 jobctl prune --keep 1 --yes
has "2 jobs removed, " out
code 0 jobctl status -a -q
[ "$(cat out)" = 9 ]
[ "$(ls "$jobs" | tr '\n' ' ')" = "2 5 9 " ]

# The same over HTTP; numbers are not given twice.
post() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" "http://jobctl$1" -d "$2" >out; }
post /v1/jobs/9/remove '{"dry_run": true}'
json 'o["id"] == 9 and o["removed_at"] is None and o["checkpoints"] is None'
post /v1/jobs/9/remove '{}'
json 'o["removed_at"] and not o["pending"]'
post /v1/jobs/9/remove '{}'
json 'o["error"]["code"] == "not_found"'
code 0 jobctl submit -q plain.yaml
[ "$(cat out)" = 10 ]
code 0 jobctl wait 10
