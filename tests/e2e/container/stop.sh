# SPDX-License-Identifier: Apache-2.0
# container/stop.sh - a cancel and a hang reach the program inside, which saves; containers of dead agents are removed
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
. "$TOP/tests/e2e/container.sh"

# job NAME COMMAND: a program below a shell of the container
job() {
    cat <<END
name: $1
image: {image: "localhost/jobctl-test:1", runtime: podman, options: $options}
resources: {cpus: 1}
grace: 60s
run: |
  busybox-train sh -c '$2'
END
}
turn='while :; do sleep 1 & wait $!; done' # a payload that runs until it is told to end
job saves "trap \"echo saved >saves.saved; exit 3\" TERM; echo \$\$ >saves.up; echo up; $turn" >saves.yaml
job alone "trap \"\" TERM; echo \$\$ >alone.up.\$JOBCTL_ATTEMPT; $turn" >alone.yaml
job bare "trap \"\" TERM; echo \$\$ >bare.up.\$JOBCTL_ATTEMPT; $turn" >bare.yaml

code 0 jobctl submit saves.yaml
wait_for "the program" test -s saves.up
[ "$(containers)" = 1 ]
saves=$(cat saves.up)
[ "$(ps -o comm= -p "$saves")" = busybox-train ] # its pid inside is the one outside

# The main program gets the signal of a cancel, through no shell; it saves and ends by itself.
code 0 jobctl cancel 1
code 3 jobctl wait 1
job_is 1 result cancelled
[ "$(cat saves.saved)" = saved ]
ended "$saves"
no_containers

# A hang: the report is about the process inside, which is asked to end; the next generation ends well.
sed 's/^name: .*/name: hangs/; /^grace/d; s/saves/hangs/g' saves.yaml >hangs.yaml
sed -i "s/^run: |/hang: {step: 1s}\nretry: {backoff: 0s..0s}\n&\n  [ \$JOBCTL_GENERATION = 1 ] || exit 0/" hangs.yaml
code 0 jobctl submit hangs.yaml --wait
[ "$(cat hangs.saved)" = saved ]
cp "$JOBCTL_HOME/jobs/2/1/incident-1.txt" incident
has " (sh): " incident
lacks "(podman)" incident
no_containers

# kill -9 of an agent; of another with its guardian. Their programs do not end by SIGTERM, and go with their containers.
code 0 jobctl submit alone.yaml
code 0 jobctl submit bare.yaml
wait_for "both programs" test -s alone.up.1 -a -s bare.up.1
agent=$(agent_pid 3 1) other=$(agent_pid 4 1)
guardian=$(ps -o ppid= -p "$other")
first=$(pod ps --all --quiet --filter label=jobctl.job=3) second=$(pod ps --all --quiet --filter label=jobctl.job=4)
[ -n "$first" ] && [ -n "$second" ]
kill -9 "$agent" "$other" $guardian
wait_for "the next attempts" test -s alone.up.2 -a -s bare.up.2
ended "$(cat alone.up.1)" "$(cat bare.up.1)"
code 1 pod container exists "$first"
code 1 pod container exists "$second"
[ "$(containers)" = 2 ]

# What does not end is killed when its grace is over, with all that is in the container.
code 0 jobctl cancel 3 4 --now
code 3 jobctl wait 3 4
ended "$(cat alone.up.2)" "$(cat bare.up.2)"
no_containers
