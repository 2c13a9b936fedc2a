#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb_check.sh DEB - install the package, upgrade it under a running daemon with a live job, remove and purge it
#
# For a root that is thrown away (release_check.sh), as root, with a user called `user`.  No systemd runs there: that
# the unit can be enabled is not tested, only that it is where systemd looks for it.
set -euo pipefail
deb=$(readlink -f "$1")
work=$(mktemp -d)
chmod 755 "$work"

as_user() { runuser -u user -- env HOME=/home/user bash -c "cd && $1"; }
fail() { echo "error: $1" >&2; exit 1; }
state_of() { as_user "jobctl status -o state $1" | tail -n 1 | tr -d ' '; }
wait_until() { # wait_until WHAT COMMAND... - for at most 60 s
    local what=$1 n
    shift
    for ((n = 0; n < 600; n++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    fail "waited 60 s in vain: $what"
}
is_state() { [ "$(state_of "$1")" = "$2" ]; }
# agent - the ids of the job's agent and of its guardian; alive ID... - all of these run
alive() { for p in "$@"; do kill -0 "$p" 2>/dev/null || return; done; }
agent() { grep -lsz '^run$' /proc/[0-9]*/cmdline | while read -r f; do
    ! grep -qsz 'jobctl-agent$' "$f" || { f=${f%/*}; echo "${f#/proc/}"; }; done; }
daemon() { as_user "jobctl version" | sed -n 's/^daemon .*pid //p'; }

# another_version - the same package but for the version
another_version() {
    local old new
    old=$(dpkg-deb -f "$deb" Version)
    new=${old%.*}.$((${old##*.} + 1))
    dpkg-deb -R "$deb" "$work/new"
    sed -i "s/^Version: .*/Version: $new/" "$work/new/DEBIAN/control"
    LC_ALL=C sed -i "s/${old//./\\.}/$new/g" "$work"/new/usr/lib/jobctl/bin/*
    rm -f "$work/new/DEBIAN/md5sums"
    dpkg-deb -b "$work/new" "$work/new.deb" >/dev/null
}

echo "- install"
apt-get update -qq
apt-get install -o Dpkg::Use-Pty=0 -qq -y --no-install-recommends "$deb" >/dev/null
for f in /usr/bin/jobctl /usr/share/man/man1/jobctl-submit.1.gz /usr/share/man/man5/jobctl.yaml.5.gz \
    /usr/share/man/man8/jobctl-agent.8.gz /usr/share/bash-completion/completions/jobctl \
    /usr/share/zsh/vendor-completions/_jobctl /usr/share/fish/vendor_completions.d/jobctl.fish \
    /usr/lib/systemd/user/jobctl.service /usr/lib/tmpfiles.d/jobctl.conf \
    /usr/share/doc-base/jobctl.jobctl /usr/share/doc/jobctl/README.md; do
    [ -s "$f" ] || fail "the package has no $f"
done
[ -z "$(find /root /home/user -name 'jobctl' -type d -path '*state*')" ] || fail "the package made a state directory"
as_user "jobctl version" | grep -q "^jobctl $(dpkg-deb -f "$deb" Version)\$" || fail "another version"

echo "- a job, and a newer package under it"
as_user 'printf "name: long\nresources: {gpus: 0, cpus: 1}\nrun: until [ -e go ]; do sleep 0.1; done\n" >long.yaml'
as_user 'jobctl submit -q --set workdir=$HOME long.yaml' >/dev/null
wait_until "the job runs" is_state 1 running
old_daemon=$(daemon) agent=$(agent)
[ -n "$agent" ] || fail "the job has no agent"
another_version
dpkg -i "$work/new.deb" >/dev/null
alive "$old_daemon" $agent || fail "the upgrade ended the daemon or the agent"
if as_user "jobctl status" >"$work/out" 2>&1; then fail "the new jobctl talks to the old daemon"; fi
grep -q "jobctl daemon restart" "$work/out" || fail "it does not say how to end the old daemon: $(cat "$work/out")"
kill "$old_daemon"
wait_until "the old daemon ends" eval "! kill -0 $old_daemon 2>/dev/null"
[ "$(state_of 1)" = running ] || fail "the new daemon did not find the job again"
[ "$(agent)" = "$agent" ] || fail "the job has another agent"

echo "- jobctl-slurm, built here"
apt-get install -o Dpkg::Use-Pty=0 -qq -y --no-install-recommends gcc libc6-dev libjansson-dev libslurm-dev >/dev/null
/usr/share/jobctl/build-slurm | grep -q "for Slurm" || fail "build-slurm"

echo "- remove and purge, while the job goes on"
apt-get remove -qq -y jobctl >/dev/null
alive $agent || fail "removing the package ended the agent"
apt-get purge -qq -y jobctl >/dev/null
left=$(find /etc /usr /var/lib -name '*jobctl*' ! -path '/var/lib/apt/*' ! -path '/usr/local/*')
[ -z "$left" ] || fail "left behind: $left"

echo "- install again: the job is there"
dpkg -i "$work/new.deb" >/dev/null
as_user "touch go && jobctl wait 1"
[ "$(as_user 'jobctl status -a -o result 1' | tail -n 1 | tr -d ' ')" = succeeded ] || fail "the job did not succeed"
kill "$(daemon)"
