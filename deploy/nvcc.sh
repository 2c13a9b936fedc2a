#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nvcc.sh TARGETS NVCC... - which of the TARGETS (75 80 90) this nvcc knows, for make
#
# One line: "ok VERSION FLAG...", machine code for each target that nvcc knows and PTX of the newest of them for newer
# GPUs, or "no SENTENCE". Toolkits before 11.8 know no H100, and none of them was tried.
set -u
oldest=11.8
targets=$1 name=${2##*/}
shift

no() {
    echo "no $*"
    exit 0
}

older() { [ "${1%.*}" -lt "${2%.*}" ] || { [ "${1%.*}" -eq "${2%.*}" ] && [ "${1#*.}" -lt "${2#*.}" ]; }; }

said=$("$@" --version 2>/dev/null) || no "$name does not run"
version=$(echo "$said" | sed -n 's/.*release \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p')
[ -n "$version" ] || no "$name does not say of which toolkit it is"
! older "$version" "$oldest" || no "the toolkit of $name is $version, and $oldest or newer is needed"
known=$("$@" --list-gpu-code 2>/dev/null) || no "$name does not say which GPUs it knows"
newest=
flags=
for t in $targets; do
    ! echo "$known" | grep -qx "sm_$t" || { flags="$flags $t" newest=$t; }
done
[ -n "$newest" ] || no "$name of toolkit $version knows none of: $targets"
printf 'ok %s' "$version"
for t in $flags; do
    code=sm_$t
    [ "$t" != "$newest" ] || code="[sm_$t,compute_$t]"
    printf ' -gencode arch=compute_%s,code=%s' "$t" "$code"
done
echo
