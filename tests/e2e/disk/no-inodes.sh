# SPDX-License-Identifier: Apache-2.0
# A disk without free inodes has bytes left: a submit is refused with the right reason, and `prune` makes room.
[ -n "${MOUNTED-}" ] || {
    mkdir "$WORK/disk"
    unshare -m mount -t tmpfs -o size=24m,nr_inodes=400 none "$WORK/disk" ||
        { echo "no file system can be mounted here"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t tmpfs -o size=24m,nr_inodes=400 none "$WORK/disk"; . "$1"' - "$0"
}
. "$TOP/tests/e2e/expect.sh"
export JOBCTL_HOME=$WORK/disk/state
cd "$WORK"
code 0 jobctl run -q -g 0 -- true
daemon=$(daemon_answers)
trap 'kill "$daemon"; wait_for "the daemon ends" ended "$daemon"' EXIT
mkdir disk/rest
i=0
while : 2>/dev/null >disk/rest/$i; do i=$((i + 1)); done
code 4 jobctl submit -q /dev/stdin <<<'{name: one-more, run: "true"}'
has "the disk of $JOBCTL_HOME is full: 0 inodes (no room for another file) and" err
has 'MiB free; free some space, for example with "jobctl prune --keep 100"' err
rm -r disk/rest
code 0 jobctl run -q -g 0 -- true
