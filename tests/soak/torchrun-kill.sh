# SPDX-License-Identifier: Apache-2.0
# The same kill under torchrun and under jobctl, one after the other: seconds from the signal to the next step.
#
# torchrun runs tests/payload/ddp_toy.py (a network of 4,545 weights), jobctl the same script, and then its
# own engine; torchrun looks at its workers ten times a second instead of every five seconds, its best
# setting. Then a rank is stopped (SIGSTOP): torchrun is given 60 s to notice, jobctl 10 s to be back.
/usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "python3-torch is not installed"; exit 77; }
. "$TOP/tests/e2e/wait.sh"
rounds=${ROUNDS:-3}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }
back_s() { read_json get faults.0.back_s; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

worker() { sed -n 's/^rank 1 of 2, pid \([0-9]*\):.*/\1/p' "$1" | tail -n 1; }
# await_torch START N, await_jobctl START N: rank 0 tells of N steps since that start of it
await_torch() { wait_for "$2 steps of start $1 under torchrun" has_steps "$2" torch_log "$1" 0; }
has_steps() { [ "$(grep -c '^step ' "$("${@:2}")")" -ge "$1" ]; } # N COMMAND...: it prints the name of a log with N steps
# Its workers' output, by restart and rank.
torch_log() { echo "$WORK"/torch-logs/*/attempt_"$1"/"$2"/stdout.log; }
# jobctl keeps one log per rank: that of the N-th start of it.
jobctl_log() { awk -v n="$1" '/^rank . of 2/ { i++ } i == n' "$JOBCTL_HOME/jobs/1/1/rank$2.log" >"$WORK/part$2"; echo "$WORK/part$2"; }
await_jobctl() { wait_for "$2 steps of start $1" has_steps "$2" jobctl_log "$1" 0; }
# The pattern of --redirects and --tee: the only ones that Debian 12's torch accepts.
torchrun() {
    OMP_NUM_THREADS=1 setsid /usr/bin/python3 -m torch.distributed.run --nproc_per_node 2 \
        --max_restarts 99 --rdzv_backend c10d --rdzv_endpoint localhost:0 --monitor_interval 0.1 \
        --redirects 1 --tee 1 --log_dir "$WORK/torch-logs" "$TOP/tests/payload/ddp_toy.py" \
        --ckpt-dir "$WORK/torch" --steps 100000 --save-every 10 --step-time 0.02 >/dev/null 2>&1 &
    launcher=$!
}
end_torchrun() {
    kill -KILL -- "-$launcher" 2>/dev/null || true
    for pid in $(cat "$WORK"/torch-logs/*/*/*/stdout.log | sed -n 's/^rank . of 2, pid \([0-9]*\):.*/\1/p'); do
        if { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q "$WORK/torch"; then
            kill -KILL "$pid"
        fi
    done
    wait "$launcher" 2>/dev/null || true
}

torchrun
trap end_torchrun EXIT
for round in $(seq "$rounds"); do
    await_torch $((round - 1)) 30
    start=$(now)
    kill -KILL "$(worker "$(torch_log $((round - 1)) 1)")"
    await_torch "$round" 1
    since "$start"
    echo
done >"$WORK/torch.times"
log=$(torch_log "$rounds" 0)
before=$(grep -c '^step ' "$log")
kill -STOP "$(worker "$(torch_log "$rounds" 1)")"
sleep "${STOPPED_S:-60}" # what torchrun is given
after=$(grep -c '^step ' "$(torch_log "$rounds" 0)")
[ ! -e "$(torch_log $((rounds + 1)) 0)" ] || after=restarted
end_torchrun
trap - EXIT

cat >"$WORK/ddp.yaml" <<YAML
name: ddp
resources: {ranks: 2, gpus: 0}
workdir: $TOP/tests/payload
run: exec /usr/bin/python3 ddp_toy.py --steps 100000 --save-every 10 --step-time 0.02
retry: {max: 100, no_progress: 100, backoff: 10ms..20ms}
YAML
jobctl submit -q "$WORK/ddp.yaml"
wait_for "rank 1 prints" test -s "$JOBCTL_HOME/jobs/1/1/rank1.log"
for round in $(seq "$rounds"); do
    await_jobctl "$round" 30
    start=$(now)
    kill -KILL "$(worker "$(jobctl_log "$round" 1)")"
    await_jobctl $((round + 1)) 1
    since "$start"
    echo
done >"$WORK/ddp.times"
jobctl cancel 1 >/dev/null
jobctl wait 1 >/dev/null || true

cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 2}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 8}
  steps: 1000000
  sample: {after: false}
checkpoint: {every: 10 steps}
YAML
for _ in $(seq "$rounds"); do
    jobctl drill "$WORK/icons.yaml" --only kill-rank --json | back_s
done >"$WORK/engine.times"
stopped=$(jobctl drill "$WORK/icons.yaml" --only stop-rank --json | back_s)

theirs=$(median <"$WORK/torch.times") script=$(median <"$WORK/ddp.times") engine=$(median <"$WORK/engine.times")
echo "kill to next step, median of $rounds: torchrun $theirs s; the same script under jobctl $script s; jobctl's engine $engine s"
echo "a stopped rank: torchrun had $before steps, ${STOPPED_S:-60} s later $after; jobctl's engine is back after $stopped s"
awk -v a="$engine" -v b="$theirs" 'BEGIN { exit !(a <= 0.25 * b) }'
awk -v a="$stopped" 'BEGIN { exit !(a < 10) }'
