# SPDX-License-Identifier: Apache-2.0
# jobctl submit with resources.ranks: a rank is killed during training, the agent restarts all ranks, and the run ends
# with the result of one rank; events name the rank that died.
. "$TOP/tests/e2e/expect.sh"

cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 2, gpus: 0}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 5}
  steps: 400
  sample: {after: false}
checkpoint: {every: 20 steps}
retry: {backoff: 0.05s..0.1s}
YAML

jobctl submit -q "$WORK/icons.yaml"
wait_event 1 kind=checkpoint >/dev/null
victim=$(wait_event 1 kind=rank_started rank=1 | field pid)
kill -9 "$victim"
jobctl wait 1 --timeout 120
jobctl logs --events 1
ended=$(wait_event 1 kind=generation_ended generation=1)
[ "$(field cause rank <<<"$ended")" = 'rank_crash 1' ]
[ "$(jobctl-agent flight "$JOBCTL_HOME/jobs/1/1/rank1.flight" | sed -n 's/^step \([0-9]*\) of.*/\1/p')" = 400 ]

# The same with one rank, in one go.
sed 's/ranks: 2/ranks: 1/' "$WORK/icons.yaml" >"$WORK/one.yaml"
jobctl submit -q "$WORK/one.yaml" --wait
last() { read_json last loss <"$JOBCTL_HOME/jobs/$1/checkpoints/metrics.jsonl"; }
echo "losses: two ranks $(last 1), one $(last 2)"
awk -v a="$(last 1)" -v b="$(last 2)" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d < 1e-3 * b) }'

# The logs of all: each line whole and with its rank, in whatever pieces it was written.
cat >"$WORK/say.yaml" <<'YAML'
resources: {ranks: 2, gpus: 0}
run: |
  printf "half of %s," $RANK
  until [ -e "$GO" ]; do sleep 0.05; done
  echo " and the rest"; printf "end of %s" $RANK
YAML
jobctl submit -q "$WORK/say.yaml" --set env.GO="$WORK/go"
jobctl logs -f last --all >"$WORK/followed" &
follower=$!
for r in 0 1; do
    wait_for "half a line of rank $r" matches "^\[$r\] half of $r,\$" jobctl logs last --all
done
touch "$WORK/go"
wait $follower
jobctl logs last -a >"$WORK/all"
for f in followed all; do
    grep '^\[' "$WORK/$f" | sort | diff - <(printf '[%s\n' '0] end of 0' '0] half of 0, and the rest' '1] end of 1' \
        '1] half of 1, and the rest')
done
diff <(printf '[%s\n' '0] end of 0' '1] end of 1') <(jobctl logs last -a -n 1)
code 2 jobctl logs last --all --rank 1
