# SPDX-License-Identifier: Apache-2.0
# container.sh - podman with a private store, and an image made here: . "$TOP/tests/e2e/container.sh"
#
# The image is busybox alone, so nothing is downloaded.  runc, vfs and a private store work as root even on a machine
# with hybrid cgroups, without overlay and with few rights. Skips the test if podman is missing or cannot run.
command -v podman >/dev/null || { echo "podman is not installed"; exit 77; }
command -v runc >/dev/null || { echo "runc is not installed"; exit 77; }
busybox=$(command -v busybox) || { echo "busybox-static is not installed"; exit 77; }
! ldd "$busybox" >/dev/null 2>&1 || { echo "this busybox is not static"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root: podman without root needs subordinate ids"; exit 77; }

globals=("--root=$WORK/store" "--runroot=$WORK/run" --runtime=runc --storage-driver=vfs)
pod() { podman "${globals[@]}" "$@"; }

# options: the same for a spec, as a list of YAML
options="[$(printf "'%s', " "${globals[@]}")]"

mkdir -p image/bin image/tmp image/etc
cp "$busybox" image/bin/busybox
for applet in sh sleep cat echo id env test touch mv ls kill true; do ln -sf busybox "image/bin/$applet"; done
cp "$busybox" image/bin/busybox-train # a main program that is no shell (agent/ranks/main_program.h): busybox-train sh -c ...
echo "root:x:0:0:root:/root:/bin/sh" >image/etc/passwd
tar -C image -cf image.tar .
pod import image.tar localhost/jobctl-test:1 >import.log 2>&1 || { cat import.log; echo "podman import does not work here"; exit 77; }
pod run --rm --pids-limit=-1 --network=host --ipc=host --pid=host --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024 \
    localhost/jobctl-test:1 true >try.log 2>&1 || { cat try.log; echo "podman cannot run a container here"; exit 77; }

# containers: how many there are, running or not
containers() { pod ps --all --quiet | wc -l; }
no_containers() { [ "$(containers)" = 0 ]; }
