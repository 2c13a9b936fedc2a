# SPDX-License-Identifier: Apache-2.0
# Ranks on several nodes: shared memory within a node, TCP between nodes, no fixed port. Two simulated nodes train like
# one rank, with equal and unequal numbers of ranks; a rank that dies or hangs on one node is named on the other; under
# an agent, the ranks exchange addresses through it.
. "$TOP/tests/e2e/wait.sh"
spec() { # DIR [SEARCH REPLACE]
    sed "s/${2:-^}/${3:-}/" >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":7,"micro":3},"steps":12,
 "optimizer":{"lr":1e-3},"schedule":{"warmup":5},"sample":{"after":false}},
 "checkpoint":{"every":{"steps":5},"keep":9,"dir":"$1"},"hang":{"step":3,"first_step":60}}
JSON
}

# start LAYOUT DIR: "2,2" are ranks 0 and 1 on the first node and 2 and 3 on the second; sets $pids
start() {
    pids= n=0
    of=$(tr ',' '+' <<<"$1")
    for r in $(seq 0 $((of - 1))); do
        RANK=$r WORLD_SIZE=$((of)) JOBCTL_NODE_RANKS=$1 JOBCTL_RENDEZVOUS="$2.meet" \
            JOBCTL_INTERFACE=${interface-lo} JOBCTL_NONCE="$2" OMP_NUM_THREADS=1 JOBCTL_EVENT_FD=9 \
            jobctl-train train --spec "$2.json" 9>"$2.$r.events" >"$2.$r.log" 2>&1 &
        pids="$pids $!"
    done
}
collect() { # $codes: how each ended
    codes=
    for p in $pids; do
        rc=0
        wait "$p" || rc=$?
        codes="$codes $rc"
    done
}
losses() { read_json each step loss <"$1/metrics.jsonl"; }
near() { # the same losses, step by step, to five digits
    paste -d' ' <(losses "$1") <(losses "$2") | awk '
        { n++; d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-5 * $2) bad = bad " " $1 }
        END { if (n != 12 || bad != "") { print n " lines, far at" bad; exit 1 } }'
}

spec "$WORK/one"
OMP_NUM_THREADS=1 jobctl-train train --spec "$WORK/one.json" >/dev/null
for layout in 1,1 2,2 3,1 1,2,1; do
    d=$WORK/of$layout
    spec "$d"
    mkdir "$d.meet"
    start $layout "$d"
    collect
    echo "ranks on nodes $layout:$codes"
    [ -z "$(tr -d ' 0' <<<"$codes")" ] || { cat "$d".*.log; exit 1; }
    near "$WORK/one" "$d"
    grep "^ranks: .* waiting for communication; .* to other nodes" "$d.0.log"
done

# Where an agent has said by which address its node is reached, that one is tried first.
spec "$WORK/known"
mkdir "$WORK/known.meet"
interface= JOBCTL_NODE_ADDR=127.0.0.1 start 1,1 "$WORK/known"
collect
echo "address known:$codes"
[ "$codes" = " 0 0" ] || { cat "$WORK/known".*.log; exit 1; }
near "$WORK/one" "$WORK/known"
for f in "$WORK"/known.meet/*.tcp.*; do grep -q '^127.0.0.1:' "$f" || { cat "$f"; exit 1; }; done

# One on the second node is killed, another time stopped; all others end and name it.
for how in KILL STOP; do
    d=$WORK/$how
    spec "$d" '"steps":12' '"steps":3000000'
    mkdir "$d.meet"
    start 2,2 "$d"
    set -- $pids
    wait_for "a step of $d" past_step "$d.0.events" 1 || { cat "$d".*.log; exit 1; }
    kill -$how "$4"
    for p in "$1" "$2" "$3"; do wait "$p" || [ $? = 74 ] || { cat "$d".*.log; exit 1; }; done
    kill -KILL "$4" 2>/dev/null || true
    wait "$4" || true
    [ $how = KILL ] && says='rank 3 died' || says='rank 3 is stuck or far behind'
    for r in 0 1 2; do grep -q "jobctl-train: $says" "$d.$r.log" || { cat "$d".*.log; exit 1; }; done
done

# Nothing says how they could learn of each other.
rc=0
RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 JOBCTL_NONCE=x jobctl-train train --spec "$WORK/one.json" \
    >"$WORK/alone.log" 2>&1 || rc=$?
[ $rc = 64 ]
grep -q 'set JOBCTL_RENDEZVOUS to a directory that all nodes share' "$WORK/alone.log"

# Under an agent no directory is needed: it tells each what the others say.
spec "$WORK/agent"
cat >"$WORK/agent.yaml" <<YAML
resources: {ranks: 2, gpus: 0}
run: JOBCTL_NODE_RANKS=1,1 JOBCTL_INTERFACE=lo exec jobctl-train train --spec $WORK/agent.json
YAML
jobctl submit -q "$WORK/agent.yaml" --wait
near "$WORK/one" "$JOBCTL_HOME/jobs/1/checkpoints"
