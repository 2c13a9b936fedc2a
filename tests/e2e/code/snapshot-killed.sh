# SPDX-License-Identifier: Apache-2.0
# A submit killed while it takes the snapshot leaves nothing partial, nor does a daemon killed while it makes the job's
# copy. Several nodes on this machine share the copy, and jobctl shell starts in it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir -p w bin
for i in $(seq 400); do echo "echo $i" >"w/s$i.sh"; done
head -c 20000000 /dev/zero | tr '\0' y >w/large
cat >w/job.yaml <<'YAML'
resources: {gpus: 0}
snapshot: true
run: cat s*.sh | sort -u | wc -l
YAML
staged() { find "$JOBCTL_HOME/code" -mindepth 1 -maxdepth 1 -name '.tmp-*' "$@" 2>/dev/null | grep .; }
code 0 jobctl status

# Killed while it copies, or after.
for i in 1 2 3 4 5; do
    echo "# $i" >>w/s1.sh
    jobctl submit -q --hold w/job.yaml >/dev/null 2>&1 &
    pid=$!
    submitting() { staged || ended $pid; }
    wait_for "submit $i copies" submitting >/dev/null
    kill -KILL $pid 2>/dev/null || true
    wait $pid || true
done
for dir in "$JOBCTL_HOME"/code/????????????????????????????????; do
    [ ! -d "$dir" ] || [ "$(find "$dir/tree" -type f | wc -l)" = 402 ]
done
code 0 jobctl submit -q w/job.yaml
last=$(cat out)
code 0 jobctl wait "$last"
[ "$(jobctl logs "$last")" = 405 ]
! staged || exit 1

# Killed between the snapshot and the request: git stops it there.  Nobody needs that original: it goes.
git init -q w
git -C w -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m x
printf '#!/bin/sh\ncase "$*" in *diff*) touch "$WORK/stopped"; exec sleep 1000 ;; esac\nexec %s "$@"\n' \
    "$(command -v git)" >bin/git
chmod +x bin/git
git -C w add s2.sh
echo '# other' >>w/s2.sh
export WORK
PATH=$WORK/bin:$PATH jobctl submit -q --hold w/job.yaml >/dev/null 2>&1 &
pid=$!
wait_for "git is asked for the diff" test -e stopped
kill -KILL $pid
wait $pid || true
sleeper_ends() { # the one of the stand-in for git, which may not be there yet
    local p
    for p in $(grep -lzF "WORK=$WORK" /proc/[0-9]*/environ 2>/dev/null); do
        p=${p%/environ}
        ! { tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null | grep -q '^sleep 1000' || { kill -KILL "${p#/proc/}"; return; }
    done
    return 1
}
wait_for "the stand-in for git ends" sleeper_ends
staged
code 0 jobctl remove "$last"
unneeded() { ! staged && ! find "$JOBCTL_HOME/code" -name manifest.json -links 1 | grep .; }
wait_for "what nobody needs goes" unneeded
code 0 jobctl submit -q --hold w/job.yaml
! staged || exit 1
job=$(cat out)

# The daemon is killed at the start of the job: its copy is whole all the same.
kill -KILL "$(daemon_pid)"
code 0 jobctl hold --off "$job"
kill -KILL "$(daemon_pid)"
code 0 jobctl wait "$job"
[ "$(jobctl logs "$job")" = 406 ]
[ "$(find "$JOBCTL_HOME/jobs/$job/code/tree" -type f | wc -l)" = 402 ]
[ -z "$(find "$JOBCTL_HOME/jobs/$job/code" -name '*.part')" ]

# Two nodes of this machine; a shell beside a rank.
cat >w/two.yaml <<'YAML'
resources: {gpus: 0, nodes: 2}
snapshot: true
run: |
  pwd >"where$RANK"
  until [ -e go ]; do sleep 0.05; done
YAML
code 0 jobctl submit -q w/two.yaml
job=$(cat out)
tree=$JOBCTL_HOME/jobs/$job/code/tree
for rank in 0 1; do wait_for "rank $rank" test -s "$tree/where$rank"; done
[ "$(cat "$tree"/where?)" = "$(printf '%s\n' "$tree" "$tree")" ]
code 0 jobctl shell "$job" -- pwd
[ "$(cat out)" = "$tree" ]
touch "$tree/go"
code 0 jobctl wait "$job"
