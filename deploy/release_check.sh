#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# release_check.sh [RELEASE...] - build, demo and unit tests of HEAD on each living Debian and Ubuntu, and the package
#
# Each release is a chroot: a bare root by debootstrap, kept in build/roots/RELEASE, and a copy of it
# that is thrown away afterwards.  There a plain user builds what `git archive HEAD` holds, after root
# ran deploy/bootstrap.sh.  One line per release:
#
#     RELEASE: ok (SECONDS s: STEP SECONDS s, ...)
#     RELEASE: failed: STEP: first error           the log is build/roots/RELEASE.log
#     RELEASE: not run: why
#
# `package` is one more: the Debian package, built on debian-12 and installed, upgraded under live jobs, removed and
# purged on a bare one (deploy/deb_check.sh).  Exit 1 if a release failed or none ran.  roots.sh says
# what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/roots.sh

# name | user | command; the first that fails ends the release
steps='
bootstrap     | root | deploy/bootstrap.sh
build         | user | make -j$(nproc)
demo          | user | make demo
test packages | root | apt-get install -qq -s --no-install-recommends $(deploy/bootstrap.sh --tests --check | sed -n "s/^missing: //p") && apt-get install -qq -y libcmocka-dev python3-minimal python3
units         | user | make -j$(nproc) check
python        | user | tests/python_check.sh build/bin
'
steps_of_package='
bootstrap     | root | deploy/bootstrap.sh && apt-get install -qq -y --no-install-recommends build-essential debhelper lintian
build         | user | make NVCC= deb
another root  | here | keep_package
install       | root | deploy/deb_check.sh build/*.deb
'
# keep_package NAME - the package that was built, in a root that has nothing else
keep_package() {
    local deb
    deb=$(ls "$roots/$1.run"/home/user/jobctl/build/jobctl_*.deb) || return
    mv "$deb" "$roots" && fresh_root "$1" && mkdir "$roots/$1.run/home/user/jobctl/build" &&
        mv "$roots/${deb##*/}" "$roots/$1.run/home/user/jobctl/build"
}

# first_error LOG - the first line of the last step that tells of an error, else its last line
first_error() {
    awk '/^== / { first = last = ""; next }
         NF { last = $0 }
         first == "" && /(error:|FAILED|undefined reference|not found|cannot find|^E:|\*\*\*)/ { first = $0 }
         END { print first != "" ? first : last }' "$1" | cut -c1-200
}

# check_release NAME SUITE [TITLE STEPS] - one line; 0 ok, 1 failed, 2 not run
check_release() {
    local why begin=$SECONDS title=${3:-$1} log=$roots/${3:-$1}.log
    why=$(why_not "$1")
    if [ -z "$why" ] && ! bare_root "$1" "$2" >"$log" 2>&1; then
        why="no root: $(grep -E '^E: ' "$log" | head -n 1 || tail -n 1 "$log")"
    fi
    if [ -n "$why" ]; then
        echo "$title: not run: $why"
        return 2
    fi
    failed=copy
    ! fresh_root "$1" >"$log" 2>&1 || run_steps "$1" "${4:-$steps}" >>"$log" 2>&1
    rm -rf --one-file-system "$roots/$1.run"
    if [ -n "$failed" ]; then
        echo "$title: failed: $failed: $(first_error "$log")"
        return 1
    fi
    echo "$title: ok ($((SECONDS - begin)) s: $times)"
}

# count RC - of one line
count() {
    [ "$1" = 2 ] || ran=1
    [ "$1" != 1 ] || bad=1
}

begin_roots
ran=0 bad=0
while read -r name suite; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    rc=0
    check_release "$name" "$suite" || rc=$?
    count $rc
done <<<"$releases"
if [ $# = 0 ] || [[ " $* " == *" package "* ]]; then
    rc=0
    check_release debian-12 bookworm package "$steps_of_package" || rc=$?
    count $rc
fi
[ $ran = 1 ] || { echo "release_check.sh: no release was checked" >&2; exit 1; }
exit $bad
