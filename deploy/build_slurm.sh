#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build-slurm [DIR] - build jobctl-slurm for the Slurm of this machine, from the sources beside this script
#
# DIR is where it goes: by default the folder of jobctl's programs.  It needs a C compiler, the headers of jansson
# (libjansson-dev) and those of Slurm: libslurm-dev, or SLURM_CFLAGS and SLURM_LIBS for a Slurm elsewhere
# (SLURM_CFLAGS=-I/opt/slurm/include SLURM_LIBS="-L/opt/slurm/lib -Wl,-rpath,/opt/slurm/lib -lslurm").
# jobctl-slurm is GPL-2.0-or-later, as libslurm.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
bin=$here/../../lib/jobctl/bin
case ${1:-} in -h | --help) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
to=${1:-$bin}
fail() { echo "build-slurm: $1" >&2; exit 4; }
[ -d "$to" ] || fail "there is no folder $to"
[ -w "$to" ] || fail "$to is not yours to write: run this with sudo, or as the one who installed jobctl"
command -v "${CC:-cc}" >/dev/null || fail "no C compiler found: install gcc, or set CC"
version=$("$bin/jobctl" version | sed -n '1s/^jobctl //p')
out=$(mktemp "$to/jobctl-slurm.XXXXXX")
trap 'rm -f "$out"' EXIT
cd "$here/slurm"
# shellcheck disable=SC2086
"${CC:-cc}" -std=gnu11 -O2 -g -D_GNU_SOURCE -DJOBCTL_VERSION="\"$version\"" -I. ${SLURM_CFLAGS:-} -o "$out" \
    controller/slurm/*.c engine/base/err.c engine/base/utf8.c \
    engine/base/json_text.c engine/base/json_make.c ${SLURM_LIBS:--lslurm} -ljansson ||
    fail "it did not compile: are libslurm-dev and libjansson-dev installed? (--help says more)"
chmod 755 "$out"
"$out" version || fail "it was built, but does not run here"
mv "$out" "$to/jobctl-slurm"
