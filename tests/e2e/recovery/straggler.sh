# SPDX-License-Identifier: Apache-2.0
# alone: the time of each rank is compared
# One of three ranks is slow because it is stopped (SIGSTOP) most of the time. status, show and why name it and its
# phase within seconds; nothing is restarted because of it.
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 3, cpus: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 12}
  steps: 1000000
  sample: {after: false}
checkpoint: {every: 100000 steps}
YAML
. "$TOP/tests/e2e/events.sh"

jobctl submit -q "$WORK/icons.yaml"
until_step 1 20
victim=$(rank_pid 1 2)
(
    while kill -STOP "$victim"; do
        sleep 0.06 # it is slow three quarters of the time
        kill -CONT "$victim"
        sleep 0.02 # and runs in between
    done
) 2>/dev/null &
holder=$!
told=$(wait_event 1 kind=straggler | tail -n 1)
kill $holder
wait $holder || true
kill -CONT "$victim"
echo "$told" | field text
[ "$(echo "$told" | field rank)" = 2 ]
jobctl show 1 | tr -s ' \n' ' ' | grep -q 'rank 2 is a straggler: without it a step would take [0-9]* % less'
jobctl why 1 | tr -s ' \n' ' ' | grep -q ': rank 2 is a straggler'
wait_event 1 'text~no rank slows down the others any longer' >/dev/null
! jobctl why 1 | tr -s ' \n' ' ' | grep -q ': rank 2 is a straggler' || exit 1
! jobctl logs --events 1 | grep -q hang || exit 1
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
