# SPDX-License-Identifier: Apache-2.0
# launch: ssh on hosts whose home cannot be used: read-only, without permission, without programs (noexec), full, or a
# dangling link. Each is named with its reason and not retried, and the next host is tried at once; without a next host
# the job ends after one attempt.
[ -n "${MOUNTED-}" ] || {
    unshare -m true 2>/dev/null || { echo "no mount namespaces here: that takes root (CAP_SYS_ADMIN)"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -eu "$0"
}
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir ro noexec full denied
mount -t tmpfs none ro
mount -o remount,ro none ro
mount -t tmpfs -o noexec none noexec
mount -t tmpfs -o size=1m none full
chmod 500 denied
# A server whose root has no power over permissions, as that of a user has none.
printf '#!/bin/sh\nexec setpriv --bounding-set -dac_override,-dac_read_search %s "$@"\n' "$sshd" >denied-sshd
chmod 755 denied-sshd
hosts_up ro noexec full denied link good
ln -s nowhere link/.cache
host_down denied
sshd=$WORK/denied-sshd host_up denied
printf '%s\n' 'launch: ssh' 'hosts: [ro, noexec, full, denied, link, good]' 'resources: {gpus: 0}' 'run: "true"' \
    'retry: {max: 0}' >job.yaml
code 0 jobctl submit job.yaml --wait
code 0 jobctl logs --events last
told() { grep -E "start_failed  *$1 cannot store jobctl's programs: $WORK/$1/.cache.*: $2" out || { cat out; exit 1; }; }
told ro 'its file system is read-only'
told noexec 'its file system does not let programs run'
told full 'its file system is full: [0-9.]* MiB are needed, '
told denied 'permission denied'
told link 'it is a dangling link'
[ "$(grep -c 'next attempt now' out)" = 5 ]
has 'placed on good; excluded: ro cannot store' out
[ "$(df --output=used full | tail -n 1)" -lt 500 ]

code 1 jobctl submit job.yaml --set 'hosts=[full]' --set 'retry.max=5' --wait
code 0 jobctl show last --json
json "o['job']['attempt'] == 1 and 'its file system is full' in o['job']['reason']"
[ "$(last_event "$(field job.id <out)" kind=start_failed cause)" = host_unusable ]

# Its programs are there, its files cannot be made.
mkdir -p good/.local
rm -rf good/.local/state
touch good/.local/state
code 1 jobctl submit job.yaml --set 'hosts=[good]' --wait
code 0 jobctl logs --events last
has "$WORK/good/.local/state" out
has 'Not a directory' out
