#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# release_check.sh [CELL...] - the README's first commands on bare Debian and Ubuntu, and the package
#
# A cell is RELEASE/STATE, such as debian-13/nothing; RELEASE names all of its states.  Each is a chroot: a bare root by
# debootstrap, kept in build/roots/RELEASE, and a copy of it that is thrown away.  There the lines under "Try it" are run
# as README.md has them, with a bundle of HEAD as the address of the clone.  What the root has before them:
#
#     nothing          git; root runs the first two lines, to the picture; then the line that the demo names ends its daemon
#     make             git and make; root runs them, with `make demo` for the second
#     build-essential  git and build-essential; the same
#     sudo             git and sudo; a plain user runs them
#     no-root          git; a plain user runs them, and root the line that they are told
#     test             git; root runs the first and the third line, then tests/python_check.sh
#     wheel            python3-venv, on Debian; a plain user installs the wheel and uses it (deploy/wheel_check.sh)
#     ci               git; root runs the first line, then .ci/run (only where it is named: an hour)
#
# Where the states between `nothing` and `test` end with the first file that is compiled, but on debian-13 `make`,
# `build-essential` and `sudo` go on to the picture.  One line per cell:
#
#     CELL: ok (SECONDS s: STEP SECONDS s, ...)
#     CELL: failed: STEP: first error           the log is build/roots/CELL.log, with - for /
#     CELL: not run: why
#
# `package` is one more: the Debian package, built on debian-12 and installed, upgraded under live jobs, removed and
# purged on a bare one (deploy/deb_check.sh).  `reproducible` builds tarball, wheel and package twice on debian-11, in
# two folders, and compares their digests.  The wheel of the cells is that of `make wheel`, which runs before them.  Exit
# 1 if a cell failed or none ran.  roots.sh says what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/roots.sh
states='nothing make build-essential sudo no-root test wheel'
[[ " $* " != */ci\ * ]] || states+=' ci'
step_limit=14400

# readme_line N - the Nth command under "Try it"; the clone is of the bundle
readme_line() {
    awk -v n="$1" '/^## / { on = $0 == "## Try it" } on && /^    / && ++seen == n' README.md |
        sed 's/^ *//; s/  *# .*//; s|ADDRESS|/srv/jobctl.bundle|'
}
clone=$(readme_line 1) demo=$(readme_line 2) test=$(readme_line 3)
[[ $clone == 'git clone /srv/'*'&& cd jobctl' && $demo == *demo && $test == *test ]] ||
    { echo "release_check.sh: README.md has other lines under \"Try it\" than git clone ADDRESS, demo and test" >&2; exit 1; }

apt='apt-get install -qq -y --no-install-recommends'
# What ends the demo: the picture is there, and the line that it names ends its daemon.  (A step's processes end with it.)
ended='ls -l $(sed -n "s/^ *pictures  *//p" ~/log) && sh -c "$(tail -n 1 ~/log)" | grep "has stopped" && { ! ls -l /proc/[0-9]*/exe 2>/dev/null | grep jobctl; }'
# to_picture WHO, to_compiling WHO [HOW]: the step, HOW instead of the clone
to_picture() { echo "demo | $1 | set -o pipefail; cd && $clone && $demo 2>&1 | tee ~/log && $ended"; }
to_compiling() {
    echo "to the first file compiled | $1 | cd && ${2-$clone} && while IFS= read -r l; do echo \"\$l\"; [[ \$l != '  compiling '* ]] || exit 0; done < <($demo 2>&1); exit 1"
}

# steps_of RELEASE STATE
steps_of() {
    local go=to_compiling demo=$demo
    [ "$1" != debian-13 ] || go=to_picture
    if [ "$2" = wheel ]; then
        echo "python | root | apt-get update -qq && $apt python3-venv
              bring  | here | bring_wheel
              pip    | user | cd && ./wheel_check.sh *.whl"
        return
    fi
    case $2 in make | build-essential) demo="make ${demo##* }" ;; esac
    echo "bare | root | apt-get update -qq && $apt git ca-certificates && rm -rf /var/lib/apt/lists/*"
    case $2 in
    nothing) to_picture root ;;
    make | build-essential)
        echo "$2 | root | apt-get update -qq && $apt $2 && rm -rf /var/lib/apt/lists/*"
        $go root ;;
    sudo)
        echo "sudo | root | apt-get update -qq && $apt sudo && rm -rf /var/lib/apt/lists/* && echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user"
        $go user ;;
    no-root)
        echo "told       | user | cd && $clone && { $demo 2>&1 | tee ~/log; [ \${PIPESTATUS[0]} = 4 ] && [ ! -e build ]; }"
        echo "told line  | root | sh -c \"\$(tail -n 1 /home/user/log)\""
        to_compiling user 'cd jobctl' ;;
    test)
        echo "test   | root | cd && $clone && $test"
        echo "python | root | cd ~/jobctl && tests/python_check.sh build/bin" ;;
    ci) echo "ci | root | cd && $clone && CI=true .ci/run" ;;
    esac
}
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

steps_of_reproducible="
bootstrap | root | deploy/bootstrap.sh && $apt build-essential debhelper zstd python3
once      | user | cp -a . ../elsewhere && make -j$(nproc) NVCC= pack && make NVCC= deb
again     | user | cd ../elsewhere && umask 077 && make -j$(nproc) NVCC= pack && make NVCC= deb
compare   | user | grep -c . build/SHA256SUMS | grep -x 3 && diff build/SHA256SUMS ../elsewhere/build/
"
bring_wheel() {
    cp deploy/wheel_check.sh deploy/dist_check.sh build/jobctl-*-manylinux_2_31_*.whl "$roots/$1.run/home/user/"
}

# bundled_root NAME - a copy of the bare root, and HEAD to be cloned
bundled_root() {
    copy_root "$1" && git bundle create -q "$roots/$1.run/srv/jobctl.bundle" HEAD
}

# first_error LOG - the first line of the last step that tells of an error, else its last line
first_error() {
    awk '/^== / { first = last = ""; next }
         NF { last = $0 }
         first == "" && /(error:|FAILED|undefined reference|not found|cannot find|^E:|\*\*\*)/ { first = $0 }
         END { print first != "" ? first : last }' "$1" | cut -c1-200
}

# check NAME SUITE CELL COPY STEPS - one line; COPY makes the root; sets ran and bad
check() {
    local why begin=$SECONDS log=$roots/${3/\//-}.log
    why=$(why_not "$1")
    if [ -z "$why" ] && ! bare_root "$1" "$2" >"$log" 2>&1; then
        why="no root: $(grep -E '^E: ' "$log" | head -n 1 || tail -n 1 "$log")"
    fi
    if [ -n "$why" ]; then
        echo "$3: not run: $why"
        return
    fi
    ran=1 failed=copy
    ! $4 "$1" >"$log" 2>&1 || run_steps "$1" "$5" >>"$log" 2>&1
    rm -rf --one-file-system "$roots/$1.run"
    if [ -n "$failed" ]; then
        echo "$3: failed: $failed: $(first_error "$log")"
        bad=1
    else
        echo "$3: ok ($((SECONDS - begin)) s: $times)"
    fi
}

# What builds the wheel takes the lock of the roots, as this script does.
if [ $# = 0 ] || [[ " $* " == */wheel\ * || " $* " =~ \ debian-[0-9]+\  ]]; then
    rm -f build/jobctl-*-manylinux_2_31_*.whl
    make --no-print-directory wheel || :
fi
begin_roots
ran=0 bad=0 wanted=" $* "
while read -r name suite; do
    [ -n "$name" ] || continue
    for state in $states; do
        [ $# = 0 ] || [[ $wanted == *" $name "* && $state != ci || $wanted == *" $name/$state "* ]] || continue
        [[ $state != wheel || $name == debian-* ]] || continue
        step_folder=/
        check "$name" "$suite" "$name/$state" bundled_root "$(steps_of "$name" "$state")"
    done
done <<<"$releases"
if [ $# = 0 ] || [[ $wanted == *" package "* ]]; then
    step_folder=/home/user/jobctl
    check debian-12 bookworm package fresh_root "$steps_of_package"
fi
if [ $# = 0 ] || [[ $wanted == *" reproducible "* ]]; then
    step_folder=/home/user/jobctl
    check debian-11 bullseye reproducible fresh_root "$steps_of_reproducible"
fi
[ $ran = 1 ] || { echo "release_check.sh: no cell was checked" >&2; exit 1; }
exit $bad
