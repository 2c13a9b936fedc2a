#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# release_check.sh [RELEASE...] - build, demo and unit tests of HEAD on each living Debian and Ubuntu
#
# Each release is a chroot: a bare root by debootstrap, kept in build/roots/RELEASE, and a copy of it
# that is thrown away afterwards.  There a plain user builds what `git archive HEAD` holds, after root
# ran deploy/bootstrap.sh.  One line per release:
#
#     RELEASE: ok (SECONDS s)
#     RELEASE: failed: STEP: first error           the log is build/roots/RELEASE.log
#     RELEASE: not run: why
#
# Exit 1 if a release failed or none ran.  Needs root.  The mirrors are those of this machine's apt,
# or DEBIAN_MIRROR and UBUNTU_MIRROR.
set -euo pipefail
cd "$(dirname "$0")/.."
roots=$PWD/build/roots

releases='
debian-11     bullseye
debian-12     bookworm
debian-13     trixie
ubuntu-22.04  jammy
ubuntu-24.04  noble
'

# name | user | command; the first that fails ends the release
steps='
bootstrap     | root | deploy/bootstrap.sh
build         | user | make -j$(nproc)
demo          | user | make demo
test packages | root | apt-get install -qq -s --no-install-recommends $(deploy/bootstrap.sh --tests --check | sed -n "s/^missing: //p") && apt-get install -qq -y libcmocka-dev
units         | user | make -j$(nproc) check
'
step_limit=1800 # seconds

mirror_of() { # mirror_of Debian|Ubuntu
    local given=${1^^}_MIRROR
    if [ -n "${!given:-}" ]; then echo "${!given}"; return; fi
    apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v d="$1" '$1 == d && $2 == d { print $3; exit }'
}

# why_not NAME - a reason not to run, or nothing
why_not() {
    local distro=${1%%-*}
    [ "$(id -u)" = 0 ] || { echo "needs root, for debootstrap and chroot"; return; }
    [ ! -d "$roots/$1" ] || return 0
    command -v debootstrap >/dev/null || { echo "no debootstrap found: apt-get install debootstrap"; return; }
    [ -n "$(mirror_of "${distro^}")" ] ||
        { echo "apt of this machine has no mirror of ${distro^}: run apt-get update, or set ${distro^^}_MIRROR"; return; }
    [ -s "/usr/share/keyrings/$distro-archive-keyring.gpg" ] ||
        echo "no /usr/share/keyrings/$distro-archive-keyring.gpg, the keys that its packages are signed with"
}

# bare_root NAME SUITE - make the root once; one that is not whole has another name
bare_root() {
    local distro=${1%%-*} root=$roots/$1
    [ ! -d "$root" ] || return 0
    rm -rf --one-file-system "$root.new"
    debootstrap --variant=minbase --include=ca-certificates --force-check-gpg \
        --keyring="/usr/share/keyrings/$distro-archive-keyring.gpg" "$2" "$root.new" "$(mirror_of "${distro^}")" &&
        mv "$root.new" "$root"
}

# What runs in the namespaces of one step: mount what programs expect, then the command.
inside='
    set -e
    mount -t proc proc "$0/proc"
    mount -t sysfs -o ro sysfs "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/dev/shm"
    mount --bind "${0%.run}.debs" "$0/var/cache/apt/archives"
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive bash -c "$1"
'

# enter ROOT COMMAND - run it with a time limit.  Mounts and processes belong to namespaces that end
# with this script, however it ends.
enter() {
    setpriv --pdeathsig KILL timeout -k 2 $step_limit \
        setpriv --pdeathsig KILL unshare --mount --pid --ipc --fork --kill-child \
        bash -c "$inside" "$1" "$2" </dev/null &
    step=$!
    local rc=0
    wait $step || rc=$?
    step=
    return $rc
}

# fresh_root NAME - a copy of the bare root with a user and the tree of HEAD
fresh_root() {
    local run=$roots/$1.run
    rm -rf --one-file-system "$run" &&
        cp -a "$roots/$1" "$run" &&
        mkdir -p "$roots/$1.debs/partial" &&
        cp -L /etc/resolv.conf "$run/etc/resolv.conf" &&
        printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$run/etc/hosts" &&
        chroot "$run" useradd -m -s /bin/bash user &&
        mkdir "$run/home/user/jobctl" &&
        git archive HEAD | tar -x -C "$run/home/user/jobctl" &&
        chroot "$run" chown -R user: /home/user/jobctl
}

# first_error LOG - the first line of the last step that tells of an error, else its last line
first_error() {
    awk '/^== / { first = last = ""; next }
         NF { last = $0 }
         first == "" && /(error:|FAILED|undefined reference|not found|cannot find|^E:|\*\*\*)/ { first = $0 }
         END { print first != "" ? first : last }' "$1" | cut -c1-200
}

# run_steps NAME - sets `failed` to the name of the step that failed, if one did
run_steps() {
    local name who command
    failed=
    while IFS='|' read -r name who command; do
        name=$(echo $name)
        [ -n "$name" ] || continue
        echo "== $name"
        command="cd /home/user/jobctl && $command"
        [ $who = root ] || command="runuser -u user -- env HOME=/home/user bash -c $(printf %q "$command")"
        enter "$roots/$1.run" "$command" || { failed=$name; return; }
    done <<<"$steps"
}

# check_release NAME SUITE - one line; 0 ok, 1 failed, 2 not run
check_release() {
    local why begin=$SECONDS log=$roots/$1.log
    why=$(why_not "$1")
    if [ -z "$why" ] && ! bare_root "$1" "$2" >"$log" 2>&1; then
        why="no root: $(grep -E '^E: ' "$log" | head -n 1 || tail -n 1 "$log")"
    fi
    if [ -n "$why" ]; then
        echo "$1: not run: $why"
        return 2
    fi
    failed=copy
    ! fresh_root "$1" >"$log" 2>&1 || run_steps "$1" >>"$log" 2>&1
    rm -rf --one-file-system "$roots/$1.run"
    if [ -n "$failed" ]; then
        echo "$1: failed: $failed: $(first_error "$log")"
        return 1
    fi
    echo "$1: ok ($((SECONDS - begin)) s)"
}

# The step is ended before its root is removed.
end() {
    [ -z "$step" ] || ! kill "$step" 2>/dev/null || wait "$step" || :
    rm -rf --one-file-system "$roots"/*.run
}

mkdir -p "$roots"
exec 9>"$roots/lock"
flock -n 9 || { echo "release_check.sh: another one is running in $roots" >&2; exit 4; }
[ -z "$(git status --porcelain -uno)" ] || echo "release_check.sh: what is not committed is not checked" >&2
step=
trap end EXIT
trap 'exit 1' INT TERM HUP
ran=0 bad=0
while read -r name suite; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    rc=0
    check_release "$name" "$suite" || rc=$?
    [ $rc = 2 ] || ran=1
    [ $rc != 1 ] || bad=1
done <<<"$releases"
[ $ran = 1 ] || { echo "release_check.sh: no release was checked" >&2; exit 1; }
exit $bad
