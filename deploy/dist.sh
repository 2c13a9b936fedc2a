#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist.sh build VERSION COMMIT DATE - build/jobctl-VERSION-ARCH.tar.zst and the wheel of HEAD (pack.sh)
# dist.sh try VERSION - unpack the tarball on the bare roots that build/roots has, and try it
#
# They are built in a bare Debian 11 (glibc 2.31), and run on what is as new or newer.  jobctl-agent and jobctl-train
# are linked with archives, as always; the libraries of jobctl, jobctl-ssh and jobctl-fetch are beside them.  With nvcc
# on this machine the CUDA plugin is inside.  jobctl-slurm is not: share/jobctl/build-slurm makes it for the site's
# Slurm.  The trial (dist_check.sh) also sends the tarball's agents to SSH hosts (tests/e2e/ssh/); the wheel is tried by
# release_check.sh.  roots.sh says what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/roots.sh
folder=jobctl-$2-$(uname -m) log=$roots/dist.log
wheel=jobctl-$2-py3-none-manylinux_2_31_$(uname -m).whl

# ended [WHERE] - ends this script if a step failed
ended() { [ -z "$failed" ] || { echo "dist.sh: ${1:-}failed: $failed:" >&2; tail -n 20 "$log" >&2; exit 1; }; }

# nvcc may be a script that starts the toolkit's own; only that one says where the toolkit lies.
find_nvcc() {
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    mounts=$("$nvcc" --dryrun -x cu -c /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || mounts=
    mounts=$(realpath -q "${mounts:-/nowhere}" || :)
    [ -x "$mounts/bin/nvcc" ] && [ "${NVCC-x}" != '' ] && nvcc=$mounts/bin/nvcc || nvcc='' mounts=''
}

build() { # build COMMIT DATE
    local begin=$SECONDS release=debian-11 make_it steps why
    why=$(why_not $release)
    [ -z "$why" ] || { echo "dist.sh: not built: $why" >&2; exit 4; }
    find_nvcc
    make_it="make -j$(nproc) COMMIT=$1 DATE=$2 NVCC=$nvcc"
    steps="
bootstrap | root | deploy/bootstrap.sh && apt-get install -qq -y --no-install-recommends zstd python3 ${nvcc:+g++}
build     | user | $make_it all man completions ${nvcc:+build/lib/libjobctl_cuda.so}
pack      | user | $make_it pack
take      | here | take
"
    failed=root
    ! bare_root $release bullseye >"$log" 2>&1 || { failed=copy && ! fresh_root $release >>"$log" 2>&1; } ||
        run_steps $release "$steps" >>"$log" 2>&1
    ended
    ls -l "build/$folder.tar.zst" "build/$wheel"
    echo "  built in $((SECONDS - begin)) s"
}
take() { cp "$roots/$1.run/home/user/jobctl/build/"{"$folder.tar.zst","$wheel"} build/; }

# A root that has nothing of ours, and the tarball in a folder with a space.
checks="
unpack    | here | unpack
try       | user | deploy/dist_check.sh '/home/user/any where/$folder'
"
unpack() {
    local to="$roots/$1.run/home/user/any where"
    mkdir "$to" && tar -C "$to" --zstd -xf "build/$folder.tar.zst" &&
        chroot "$roots/$1.run" chown -R user: "/home/user/any where"
}

try() {
    local release unpacked
    while read -r release _; do
        [ -n "$release" ] && [ -d "$roots/$release" ] || continue
        failed=copy
        ! fresh_root "$release" >"$log" 2>&1 || run_steps "$release" "$checks" >>"$log" 2>&1
        ended "on $release: "
        echo "  runs on a bare $release"
    done <<<"$releases"

    # Its agents on other hosts: SSH servers of this machine, where the tests can start them.
    unpacked=$(mktemp -d)
    tar -C "$unpacked" --zstd -xf "build/$folder.tar.zst"
    tests/run_e2e.sh "$unpacked/$folder/lib/jobctl/bin" tests/e2e/ssh/login.sh tests/e2e/ssh/job.sh \
        tests/e2e/ssh/nodes-ssh.sh || { rm -rf "$unpacked"; exit 1; }
    rm -rf "$unpacked"
}

begin_roots
case $1 in
build) build "${@:3}" ;;
try) try ;;
*) sed -n '3,4s/^# //p' "$0"; exit 2 ;;
esac
