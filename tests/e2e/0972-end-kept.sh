# SPDX-License-Identifier: Apache-2.0
# The daemon dies after it has stored the end of a job, and before the events beside the job have it: the next daemon
# writes it there, so that a store rebuilt from the directories does not run the job again. The same where a line of
# the events is damaged, and where the first one is, which has the spec.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
jobs=3
for job in $(seq $jobs); do
    printf 'name: once%d\nrun: echo ran >>%s/ran%d\n' "$job" "$WORK" "$job" >once.yaml
    code 0 jobctl submit -q once.yaml
done
code 0 jobctl wait $(seq $jobs)
stop_daemon KILL
events() { echo "$JOBCTL_HOME/jobs/$1/events.jsonl"; }
done_in() { tail -n 1 "$(events "$1")" | field kind; }
[ "$(done_in 1)" = done ]
sed -i '$d' "$(events 1)"
[ "$(done_in 1)" != done ]
code 0 jobctl status
[ "$(done_in 1)" = done ]

rebuild() { # the store from the directories alone
    rm "$JOBCTL_HOME"/jobs.db*
    rm -rf "$JOBCTL_HOME/snapshots"
    code 0 jobctl doctor --repair
    has "$jobs came from the directories" out
    for job in $(seq $jobs); do
        job_is "$job" result succeeded
        [ "$(cat "ran$job")" = ran ]
    done
}
stop_daemon KILL
rebuild
stop_daemon KILL
sed -i '4s/"kind"/"kin"/' "$(events 1)"           # of the events in the middle
sed -i '1s/^{/[/' "$(events 2)"                   # the spec
sed -i '2s/^{/[/' "$(events 3)"                   # the submit
sed -i '5i nothing of ours' "$(events 2)"         # a line more
rebuild
[ "$(events_of 1 kind=damaged seq)" = 3 ]
[ -z "$(events_of 2 kind=damaged seq)" ]
code 0 jobctl show 2 --json
json "o['job']['name'] == 'once2'"

# Neither the events nor spec.json: no repair helps, so none is asked for.
stop_daemon KILL
rm "$JOBCTL_HOME"/jobs.db*
rm -rf "$JOBCTL_HOME/snapshots"
sed -i '1s/^{/[/' "$(events 2)" "$JOBCTL_HOME/jobs/2/spec.json"
code 0 jobctl status
has '2 jobs (1, 3): a directory, but no row in the store' err
has '1 job (2): no row in the store, and the events in the directory are damaged' err
code 0 jobctl doctor --repair
code 0 jobctl status
lacks 'doctor --repair' err
code 3 jobctl show 2
has 'neither events.jsonl nor spec.json in its directory can be read: restore the directory from a backup' err

# The origin in the first line, of a job that waits: spec.json tells whose directory it is.
code 0 jobctl submit -q --hold once.yaml
held=$(cat out)
code 0 jobctl show "$held"
stop_daemon KILL
origin() { head -n 1 "$(events "$held")" | field origin; }
was=$(origin)
sed -i "1s/\"origin\":\"./\"origin\":\"x/" "$(events "$held")"
code 0 jobctl status
lacks 'another job' err
[ "$(origin)" = "$was" ]
