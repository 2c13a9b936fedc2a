# SPDX-License-Identifier: Apache-2.0
# A job in an image with docker, by a daemon of this test: what it sees, a restart, a cancel that reaches the program
# inside, a killed agent; no container is left. Docker's processes are not children of the agent.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
[ "$(id -u)" = 0 ] || { echo "needs root, for a docker daemon"; exit 77; }
for program in docker dockerd containerd runc; do
    command -v $program >/dev/null || { echo "$program is not installed (docker.io)"; exit 77; }
done
busybox=$(command -v busybox) || { echo "busybox-static is not installed"; exit 77; }
! ldd "$busybox" >/dev/null 2>&1 || { echo "this busybox is not static"; exit 77; }
export DOCKER_HOST=unix://$WORK/docker.sock
dockerd --data-root="$WORK/docker" --exec-root="$WORK/docker-run" --pidfile="$WORK/docker.pid" --host="$DOCKER_HOST" \
    --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs >dockerd.log 2>&1 &
dockerd=$!
end_docker() {
    kill $dockerd 2>/dev/null || true
    wait $dockerd || true
    umount "$WORK/docker-run/netns/default" 2>/dev/null || true
}
trap end_docker EXIT
answers() { docker info >/dev/null 2>&1 || ! kill -0 $dockerd 2>/dev/null; }
wait_for "the docker daemon" answers
docker info >/dev/null 2>&1 || { tail -n 3 dockerd.log; echo "no docker daemon can run here"; exit 77; }

mkdir -p image/bin image/tmp image/etc
cp "$busybox" image/bin/busybox
for applet in sh sleep cat echo id env test touch mv ls kill true; do ln -sf busybox "image/bin/$applet"; done
cp "$busybox" image/bin/busybox-train # a main program that is no shell
echo "root:x:0:0:root:/root:/bin/sh" >image/etc/passwd
tar -C image -c . | docker import - jobctl-test:1 >import.log
docker run --rm --network=host --ipc=host --pid=host jobctl-test:1 true >try.log 2>&1 ||
    { cat try.log; echo "docker cannot run a container here"; exit 77; }
no_containers() { [ -z "$(docker ps --all --quiet)" ]; }

# A docker daemon with few rights can raise no limit: locked memory stays what it is.
limit=$(ulimit -H -l)
[ "$limit" = unlimited ] && limit=-1 || limit=$((limit * 1024))
options="[--ulimit=memlock=$limit:$limit]"
mkdir data
echo "of the data set" >data/file
cat >job.yaml <<'YAML'
name: inside
image: {image: "jobctl-test:1", runtime: docker, mounts: [data:/set:ro], options: OPTIONS}
env: {COLOUR: blue}
resources: {ranks: 2, cpus: 2}
setup: echo "setup in $(id -u)" >setup.txt
retry: {backoff: 0s..0s}
run: |
  echo "rank $RANK of $WORLD_SIZE: $COLOUR, $(cat /set/file), $(id -u):$(id -g) in $(pwd)"
  ! touch /set/new 2>/dev/null
  [ -f "$JOBCTL_FLIGHT" ] && [ -f setup.txt ] && [ ! -e /etc/debian_version ]
  [ "$JOBCTL_GENERATION" = 2 ] || [ "$RANK" = 0 ] || exit 5
  [ "$RANK" = 1 ] || [ "$JOBCTL_GENERATION" = 2 ] || sleep 600
YAML
sed -i "s/OPTIONS/$options/" job.yaml
code 0 jobctl plan job.yaml
has "container: jobctl-test:1 with docker (set by image.runtime)" out
code 0 jobctl submit job.yaml --wait
jobctl logs 1 --rank 1 >out
has "rank 1 of 2: blue, of the data set, $(id -u):$(id -g) in $WORK" out
grep -q "setup in $(id -u)" setup.txt
code 0 jobctl logs --events 1
has "exited with code 5" out
[ "$(last_event 1 kind=generation_started generation)" = 2 ]
wait_for "no container is left" no_containers

# A cancel reaches the program inside, which saves; then one whose agent is killed.
cat >long.yaml <<YAML
name: long
image: {image: "jobctl-test:1", runtime: docker, options: $options}
resources: {ranks: 1, cpus: 1}
grace: 20s
retry: {max: 0}
run: exec busybox-train sh -c 'trap "echo saved; exit 0" TERM; echo up; while true; do sleep 0.1; done'
YAML
code 0 jobctl submit -q long.yaml
wait_for "the program is up" says up jobctl logs 2
code 0 jobctl cancel 2
code 3 jobctl wait -q 2
jobctl logs 2 | grep -qx saved
wait_for "no container is left" no_containers
code 0 jobctl submit -q long.yaml
wait_for "the program is up" says up jobctl logs 3
kill -KILL "$(last_event 3 kind=agent_up pid)"
code 1 jobctl wait -q 3 || code 93 jobctl wait -q 3
wait_for "no container is left" no_containers
