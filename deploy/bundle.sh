#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh FOLDER - put the shared libraries of the programs in FOLDER into lib/jobctl/lib of it
#
# For a build with PORTABLE=1, whose programs look there first.  The C library and its parts are those of the machine
# that runs them.
set -euo pipefail
cd "$1/lib/jobctl"
strip --strip-debug bin/* lib/*.so
own='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_.*)\.so'
for program in bin/*; do
    ldd "$program" | awk '/=> \// { print $3 }'
done | sort -u | while read -r library; do
    [[ ${library##*/} =~ $own || $library == */lib/jobctl/* ]] || cp -L "$library" lib/
done
# Each is found from there, by name.
for program in bin/*; do
    lost=$(ldd "$program" | awk '/not found/ || (/=> \// && $3 !~ /lib\/jobctl/) { print $1 }' | grep -vE "$own" || :)
    [ -z "$lost" ] || { echo "bundle.sh: $program finds these elsewhere: $lost" >&2; exit 1; }
done
