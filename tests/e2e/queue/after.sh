# SPDX-License-Identifier: Apache-2.0
# A job that waits for others to succeed, end or fail: what it waits for is shown, and an impossible condition ends it.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
submit() { jobctl run -d -q --set resources.cpus=1 --set retry.max=0 "$@"; }

code 2 jobctl run --after 'x"' true
has '--after: expected job ids or names separated by commas' err
code 2 jobctl run --after 7, true
code 2 jobctl run --after afterany: true
has "after: expected ids or names of jobs, or afterany:JOB, afternotok:JOB; " err
[ ! -e "$JOBCTL_HOME" ]
mkfifo go
submit -N first "read x <go; exit 3" >/dev/null
submit --after first true >/dev/null
submit --after afterany:1 true >/dev/null
submit --after afternotok:first true >/dev/null
submit --after afterok:3,afternotok:3 true >/dev/null
code 0 jobctl status --json 1-5
json '[j["after"] for j in o["jobs"]] == [[], [1], ["afterany:1"], ["afternotok:1"], [3, "afternotok:3"]]'
for told in "2 succeed" "3 end" "4 fail"; do
    code 0 jobctl why "${told% *}"
    has "waiting for job 1 to ${told#* }" out
done
# A daemon that starts anew knows them.
code 0 jobctl daemon restart
code 0 jobctl why 4
has "waiting for job 1 to fail" out
echo x >go
code 1 jobctl wait 2
has "dependency failed: job 1 did not succeed" out
code 0 jobctl wait 3-4
code 1 jobctl wait 5
has "dependency failed: job 3 succeeded (afternotok)" out
code 3 jobctl run --after afternotok:3 true
has "after: job 3 has succeeded, so a job that waits for its failure could never start" err
code 0 jobctl run --after afterany:1,3 true
code 0 jobctl run --after afterany:3 true
