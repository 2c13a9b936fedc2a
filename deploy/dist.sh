#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist.sh VERSION COMMIT DATE - build/jobctl-VERSION-ARCH.tar.zst of HEAD, which runs wherever it is unpacked
#
# It is built in a bare Debian 11 (glibc 2.31), and runs on what is as new or newer.  jobctl-agent and jobctl-train are
# linked with archives, as always; the libraries of jobctl, jobctl-ssh and jobctl-fetch are beside them.  With nvcc on this machine
# the CUDA plugin is inside.  jobctl-slurm is not: share/jobctl/build-slurm makes it for the site's Slurm.  Then it is
# unpacked on the bare roots that build/roots has, and tried (dist_check.sh); and its agents are sent to SSH hosts
# (tests/e2e/08*).  roots.sh says what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/roots.sh
folder=jobctl-$1-$(uname -m) log=$roots/dist.log
release=debian-11

# nvcc may be a script that starts the toolkit's own; only that one says where the toolkit lies.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
mounts=$("$nvcc" --dryrun -x cu -c /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || mounts=
mounts=$(realpath -q "${mounts:-/nowhere}" || :)
[ -x "$mounts/bin/nvcc" ] && [ "${NVCC-x}" != '' ] && nvcc=$mounts/bin/nvcc || nvcc='' mounts=''

make_it="make -j$(nproc) PORTABLE=1 HAVE_SLURM= COMMIT=$2 DATE=$3 NVCC=$nvcc PREFIX=/$folder"
steps="
bootstrap | root | deploy/bootstrap.sh && apt-get install -qq -y --no-install-recommends zstd ${nvcc:+g++}
build     | user | $make_it all man completions ${nvcc:+build/lib/libjobctl_cuda.so}
stage     | user | $make_it install DESTDIR=build/stage && deploy/bundle.sh build/stage/$folder && cp deploy/jobctl.service build/stage/$folder/lib/systemd/user/
pack      | user | tar -C build/stage --owner=0 --group=0 --sort=name --mtime=@$(date -u -d "$3" +%s) -cf - $folder | zstd -q -12 -T0 -o build/$folder.tar.zst
take      | here | take
"
take() { cp "$roots/$1.run/home/user/jobctl/build/$folder.tar.zst" build/; }

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

command -v zstd >/dev/null || { echo "dist.sh: not built: needs zstd: sudo apt-get install zstd" >&2; exit 4; }
why=$(why_not $release)
[ -z "$why" ] || { echo "dist.sh: not built: $why" >&2; exit 4; }
begin_roots
begin=$SECONDS
failed=root
{ ! bare_root $release bullseye || { failed=copy && ! fresh_root $release; } || run_steps $release "$steps"; } >"$log" 2>&1
[ -z "$failed" ] || { echo "dist.sh: failed: $failed:" >&2; tail -n 20 "$log" >&2; exit 1; }
echo "  build/$folder.tar.zst ($(stat -c %s "build/$folder.tar.zst") bytes, $((SECONDS - begin)) s)"
while read -r release _; do
    [ -n "$release" ] && [ -d "$roots/$release" ] || continue
    failed=copy
    ! fresh_root "$release" >"$log" 2>&1 || run_steps "$release" "$checks" >>"$log" 2>&1
    [ -z "$failed" ] || { echo "dist.sh: on $release: failed: $failed:" >&2; tail -n 20 "$log" >&2; exit 1; }
    echo "  runs on a bare $release"
done <<<"$releases"

# Its agents on other hosts: SSH servers of this machine, where the tests can start them.
unpacked=$(mktemp -d)
tar -C "$unpacked" --zstd -xf "build/$folder.tar.zst"
tests/run_e2e.sh "$unpacked/$folder/lib/jobctl/bin" tests/e2e/0800-ssh-login.sh tests/e2e/0810-ssh-job.sh \
    tests/e2e/0870-nodes-ssh.sh || { rm -rf "$unpacked"; exit 1; }
rm -rf "$unpacked"
