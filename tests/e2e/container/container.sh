# SPDX-License-Identifier: Apache-2.0
# container/container.sh - a job in an image: what it sees, its GPUs' variables, progress, restarts; nothing is left
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
. "$TOP/tests/e2e/container.sh"

mkdir data
echo "of the data set" >data/file
cat >job.yaml <<END
name: inside
image:
  image: localhost/jobctl-test:1
  runtime: podman
  mounts: [data:/set:ro]
  options: $options
env: {COLOUR: blue, PATH: "/bin:/opt"}
resources: {ranks: 2, cpus: 2}
setup: echo "setup in \$(id -u)" >setup.txt
retry: {backoff: 0s..0s}
run: |
  echo "rank \$RANK of \$WORLD_SIZE: \$COLOUR, \$PATH, \$(cat /set/file), \$(id -u):\$(id -g) in \$(pwd)"
  ! touch /set/new 2>/dev/null
  [ -f "\$JOBCTL_FLIGHT" ] && [ -d "\$JOBCTL_CKPT_DIR" ] && [ -f setup.txt ] && [ ! -e /etc/debian_version ]
  echo "{\"ev\":\"step\",\"step\":\$JOBCTL_GENERATION,\"steps\":2,\"loss\":1.5}" >&\$JOBCTL_EVENT_FD
  [ "\$JOBCTL_GENERATION" = 2 ] || [ "\$RANK" = 0 ] || exit 5
  [ "\$RANK" = 1 ] || [ "\$JOBCTL_GENERATION" = 2 ] || sleep 600
END
code 0 jobctl plan job.yaml
has "container: localhost/jobctl-test:1 with podman (set by image.runtime)" out
export HOST_ONLY=1 PYTHONPATH=/nowhere
code 0 jobctl submit job.yaml --wait
jobctl logs 1 --rank 1 >out
has "rank 1 of 2: blue, /bin:/opt, of the data set, $(id -u):$(id -g) in $WORK" out
grep -q "setup in $(id -u)" setup.txt
code 0 jobctl logs --events 1
has "image localhost/jobctl-test:1 with podman" out
has "image is on every node" out
has "setup exited with code 0" out
has "exited with code 5" out
[ "$(events_of 1 kind=pull_started kind | wc -l)" = 1 ]
[ "$(last_event 1 kind=generation_started generation)" = 2 ]
job_is 1 step 2
no_containers

# Two nodes, simulated on this machine: each looks for the image and starts containers of its own.
cat >nodes.yaml <<END
image: {image: "localhost/jobctl-test:1", options: $options}
resources: {nodes: 2, ranks: 1, gpus: 0, cpus: 1}
run: echo "rank \$RANK of \$WORLD_SIZE, node \$NODE_RANK, \$JOBCTL_CONTAINER"
END
code 0 jobctl submit nodes.yaml --wait
for r in 0 1; do
    jobctl logs 2 --rank $r >out
    has "rank $r of 2, node $r, jobctl-2.1-g1-n$r-r$r-" out
done
code 0 jobctl why 2
has "with podman: the first in the order podman, docker, apptainer, singularity, enroot" out
no_containers
