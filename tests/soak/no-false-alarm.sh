# SPDX-License-Identifier: Apache-2.0
# SECONDS_OF_IT of a job of three ranks in which a random one stops for up to 4 s, repeatedly, while the machine is also
# busy with other work: no hang is reported. Then one really hangs, and is reported.
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 3, cpus: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 6}
  steps: 10000000
  sample: {after: false}
checkpoint: {every: 500 steps}
YAML
. "$TOP/tests/e2e/events.sh"
jobctl submit -q "$WORK/icons.yaml"
until_step 1 5
end=$(($(date +%s) + ${SECONDS_OF_IT:-300})) times=0
while [ "$(date +%s)" -lt "$end" ]; do
    victim=$(rank_pid 1 $((RANDOM % 3)))
    kill -STOP "$victim"
    sleep $((RANDOM % 4)).$((RANDOM % 10)) # how long it stands still
    kill -CONT "$victim"
    sleep 0.$((RANDOM % 10)) # how long it runs
    times=$((times + 1))
done
echo "$times pauses, $(job_field 1 step) steps"
! jobctl logs --events 1 | grep ' hang: ' || exit 1
[ "$(events_of 1 kind=generation_started | wc -l)" = 1 ]
victim=$(rank_pid 1 1)
kill -STOP "$victim"
wait_event 1 kind=hang | field text
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
