# SPDX-License-Identifier: Apache-2.0
# container/refused.sh - images that cannot run: refused at submit with their line, or by the pull with its reason
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

# At submit: the name, a runtime that is not here, the engine, an option that is none.
printf 'name: a\nimage: Busy/box\nrun: train\n' >a.yaml
code 2 jobctl submit a.yaml
has 'a.yaml:2:8: image: "Busy/box" is not the name of an image: use lower-case letters' err
mkdir empty
printf 'name: b\nimage:\n  image: busybox\n  runtime: apptainer\nrun: train\n' >b.yaml
code 2 env PATH="$BIN:$WORK/empty" "$BIN/jobctl" submit b.yaml
has 'b.yaml:4:12: image.runtime: apptainer is not installed on this node; install it' err
printf 'name: c\nimage: {image: busybox, options: [runc]}\nrun: train\n' >c.yaml
code 2 jobctl submit c.yaml
has 'c.yaml:2:34: image.options[0]: expected an option such as --shm-size=8g, not "runc"' err
code 2 jobctl plan c.yaml --set image.options=[] --set image.mounts=[nowhere]
has "image.mounts[0]: $WORK/nowhere does not exist" err

# What is not in PATH here may be in the image.
. "$TOP/tests/e2e/container.sh"
cat >pull.yaml <<END
name: pull
image: {image: "localhost:1/none:1", runtime: podman, options: $options}
retry: {max: 0}
run: program-of-the-image
END
code 1 jobctl submit pull.yaml --wait
[ -z "$(events_of 1 kind=generation_started generation)" ]
code 0 jobctl why 1
has "the pull exited with code 125: " out
has "connection refused" out
lacks "hang" out
code 0 jobctl logs 1 --setup
has "pulling localhost:1/none:1" out

# A registry that never answers: no hang, and a cancel ends the pull.
python3 -IS -c '
import socket, time
server = socket.create_server(("127.0.0.1", 0))
open("port", "w").write("%d\n" % server.getsockname()[1])
time.sleep(600)' &
server=$!
trap 'kill $server; wait $server || true' EXIT
wait_for "the registry" test -s port
sed "s/localhost:1\//localhost:$(cat port)\//; \$a hang: {first_step: 1s, step: 1s, silent: 1s}" pull.yaml >slow.yaml
code 0 jobctl submit slow.yaml
wait_event 2 kind=pull_started text
wait_for "the runtime to ask" says "Trying to pull" jobctl logs 2 --setup
code 0 jobctl status
has "waiting for image localhost:$(cat port)/none:1 with podman" out
code 0 jobctl cancel 2
code 3 jobctl wait 2
code 0 jobctl logs --events 2
has "the image pull was killed by signal 15" out
lacks "hang" out

# An image without a shell is told so, and not tried again.
tar -cf bare.tar -C "$WORK" empty
pod import bare.tar localhost/jobctl-bare:1 >import.log 2>&1
sed 's/localhost:1\/none:1/localhost\/jobctl-bare:1/; /retry/d' pull.yaml >bare.yaml
code 1 jobctl submit bare.yaml --wait
code 0 jobctl why 3
has "/bin/sh" out
has "Use an image with /bin/sh" out
lacks "survived" out
[ "$(last_event 3 kind=generation_ended generation)" = 1 ]
no_containers

code 0 jobctl doctor
matches '^ok  *podman .*, as root' cat out
