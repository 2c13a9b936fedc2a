# SPDX-License-Identifier: Apache-2.0
# PyTorch over gloo, whose threads wake up every 10 ms while they wait: a rank that falls asleep, a rank that never
# arrives, and both ranks inside torchrun are detected by their silence and restarted; light steps without output, for
# twice the permitted silence, are not a hang. Each rank's line is named, that of the rank that is behind first.
/usr/bin/python3 -c 'import torch' 2>/dev/null ||
    { echo "python3-torch is not installed (deploy/bootstrap.sh --all)"; exit 77; }
. "$TOP/tests/e2e/events.sh"
cp "$TOP/tests/payload/gloo_style.py" "$WORK"

# at_home NAME RANKS SCRIPT CHECK...: one job in a home of its own, as each takes all CPU slots of a small machine
at_home() {
    export JOBCTL_HOME="$WORK/$1" WAIT_S=90
    trap 'jobctl cancel 1 >/dev/null 2>&1 || true; stop_daemon' EXIT
    cat >"$WORK/$1.yaml" <<YAML
name: $1
resources: {ranks: $2, gpus: 0}
workdir: $WORK
env: {OMP_NUM_THREADS: "1"}
run: exec /usr/bin/python3 $3
hang: {silent: 10s}
YAML
    jobctl submit -q "$WORK/$1.yaml"
    "${@:4}"
}
# found RANK LINE PLACES: a hang within 40 s after that line, and by silence; where the ranks stand, in `why`, and
# with all frames in the report; the next generation ends well
found() {
    wait_for "'$2' of rank $1" says "$2" jobctl logs 1 --rank "$1"
    WAIT_S=40 wait_event 1 kind=hang | field text |
        grep 'has shown a sign of life for 1[0-9.]* s (limit 10.0 s): no output, no CPU work, nothing read or written'
    jobctl wait 1
    says "$3" jobctl why 1 --json
    grep -A30 'stacks of Python' "$JOBCTL_HOME/jobs/1/1/incident-1.txt" | grep 'gloo_style.py", line [0-9]* in <module>'
}
works() {
    jobctl wait 1
    says "all steps done" jobctl logs 1
    [ "$(events_of 1 kind=hang | wc -l)" = 0 ]
}

# The redirects are for PyTorch 1.13 on Python 3.11, which cannot read its own default.
torchrun="-m torch.distributed.run --nproc_per_node 2 --monitor_interval 0.1 --redirects 9:3 --tee 9:3"
line_of() { grep -n "$1" "$WORK/gloo_style.py" | cut -d: -f1; }
asleep=$(line_of "sleep(1e6)")
behind="rank 1 is at gloo_style.py:$asleep, rank 0 waits at gloo_style.py:$(line_of backward) in backward"
both="ranks 0, 1 wait at gloo_style.py:$(line_of init_process_group) in init_process_group"
(at_home works 2 "gloo_style.py works" works) & scenes=$!
(at_home asleep 2 "gloo_style.py asleep" found 1 "rank 1 falls asleep" "$behind") & scenes+=" $!"
(at_home missing 2 "gloo_style.py missing" found 0 "rank 0 joins" "$both") & scenes+=" $!"
(at_home torchrun 1 "$torchrun --master_port \$MASTER_PORT gloo_style.py asleep" \
    found 0 "rank 1 falls asleep" "$behind") & scenes+=" $!"
for scene in $scenes; do
    wait "$scene"
done
