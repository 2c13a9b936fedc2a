# SPDX-License-Identifier: Apache-2.0
# roots.sh - chroots of Debian and Ubuntu for release_check.sh and dist.sh, which source this file at the top of the tree
#
# A bare root by debootstrap is kept in build/roots/RELEASE, packages beside it in RELEASE.debs; work is done in a copy,
# RELEASE.run.  Needs root.  The mirrors are those of this machine's apt, or DEBIAN_MIRROR and UBUNTU_MIRROR.
roots=$PWD/build/roots
step_limit=1800 # seconds

releases='
debian-11     bullseye
debian-12     bookworm
debian-13     trixie
ubuntu-22.04  jammy
ubuntu-24.04  noble
'

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

# What runs in the namespaces of one step: mount what programs expect, then the command.  The root is that of the mounts,
# as on a machine: in a chroot a process does not see on which disk its files are, and nothing can have mounts of its own.
inside='
    set -e
    mount --bind "$0" "$0"
    mount -t proc proc "$0/proc"
    mount -t sysfs -o ro sysfs "$0/sys"
    [ ! -d "$0/sys/fs/cgroup" ] || mount --rbind /sys/fs/cgroup "$0/sys/fs/cgroup"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/dev/shm"
    mount --bind "${0%.run}.debs" "$0/var/cache/apt/archives"
    for d in $2; do mkdir -p "$0$d"; mount --bind -o ro "$d" "$0$d"; done
    cd "$0"
    pivot_root . .
    umount -l .
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive bash -c "$1"
'

# Folders of this machine that a script wants at the same place in its root.
mounts=
# Where its steps run.
step_folder=/home/user/jobctl

# enter ROOT COMMAND - run it with a time limit.  Mounts and processes belong to namespaces that end
# with this script, however it ends.
enter() {
    setpriv --pdeathsig KILL timeout -k 2 $step_limit \
        setpriv --pdeathsig KILL unshare --mount --pid --ipc --fork --kill-child \
        bash -c "$inside" "$1" "$2" "$mounts" </dev/null &
    step=$!
    local rc=0
    wait $step || rc=$?
    step=
    return $rc
}

# copy_root NAME - a copy of the bare root, with a user
copy_root() {
    local run=$roots/$1.run
    rm -rf --one-file-system "$run" &&
        cp -a "$roots/$1" "$run" &&
        mkdir -p "$roots/$1.debs/partial" &&
        echo force-unsafe-io >"$run/etc/dpkg/dpkg.cfg.d/thrown_away" &&
        cp -L /etc/resolv.conf "$run/etc/resolv.conf" &&
        printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$run/etc/hosts" &&
        chroot "$run" useradd -m -s /bin/bash user
}

# fresh_root NAME - the same with the tree of HEAD
fresh_root() {
    local to=$roots/$1.run/home/user/jobctl
    copy_root "$1" && mkdir "$to" && git archive HEAD | tar -x -C "$to" && chroot "$roots/$1.run" chown -R user: "${to#*.run}"
}

# run_steps NAME STEPS - lines "name | user, root, or here | command"; sets `failed` to the first that failed, and
# `times` to "name N s, ..." of the others.
# A command of `here` is a function of the script: it runs outside of the root and is given NAME.
run_steps() {
    local name who command begin
    failed= times=
    while IFS='|' read -r name who command; do
        name=$(echo $name)
        [ -n "$name" ] || continue
        echo "== $name"
        begin=$SECONDS
        if [ $who = here ]; then
            $command "$1" || { failed=$name; return; }
        else
            command="cd $step_folder && $command"
            [ $who = root ] || command="runuser -u user -- env HOME=/home/user bash -c $(printf %q "$command")"
            enter "$roots/$1.run" "$command" || { failed=$name; return; }
        fi
        times+="${times:+, }$name $((SECONDS - begin)) s"
    done <<<"$2"
}

# The step is ended before its root is removed.
end_roots() {
    [ -z "$step" ] || ! kill "$step" 2>/dev/null || wait "$step" || :
    rm -rf --one-file-system "$roots"/*.run
}

# One script at a time; what it leaves is removed however it ends.
begin_roots() {
    mkdir -p "$roots"
    exec 9>"$roots/lock"
    flock -n 9 || { echo "$0: another one is running in $roots" >&2; exit 4; }
    [ -z "$(git status --porcelain -uno)" ] || echo "$0: what is not committed is left out" >&2
    step=
    trap end_roots EXIT
    trap 'exit 1' INT TERM HUP
}
