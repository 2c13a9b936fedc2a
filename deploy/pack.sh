#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pack.sh all|wheel BUILD VERSION DATE PROGRAM... - a wheel, and jobctl-VERSION-ARCH.tar.zst of the same files, in BUILD
#
# Both run where the C library is that of this machine or newer; all other shared libraries of the programs are put into
# lib/jobctl/lib, where they look first.  The same sources and DATE give the same bytes, in whatever folder; only the
# CUDA plugin depends on it, because nvcc puts a hash of the folder into names.
set -euo pipefail
umask 022
what=$1 build=$(cd "$2" && pwd) version=$3 date=$4
shift 4
cd "$(dirname "$0")/.."
folder=jobctl-$version-$(uname -m)
top=$build/stage/$folder
rm -rf "$build/stage"
deploy/install.sh install "$build" "$build/stage" "/$folder" "$@"
cp deploy/jobctl.service "$top/lib/systemd/user/" # who unpacks it names the folder

# A build's id depends on the folder where it was compiled.
strip --strip-debug --remove-section=.note.gnu.build-id "$top"/lib/jobctl/bin/* "$top"/lib/jobctl/lib/*.so
own='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_.*)\.so'
for program in "$top"/lib/jobctl/bin/*; do ldd "$program" | awk '/=> \// { print $3 }'; done | sort -u |
    while read -r library; do
        [[ ${library##*/} =~ $own || $library == */lib/jobctl/* ]] || cp -L "$library" "$top/lib/jobctl/lib/"
    done
for program in "$top"/lib/jobctl/bin/*; do # each is found from there, by name
    lost=$(ldd "$program" | awk '/not found/ || (/=> \// && $3 !~ /lib\/jobctl/) { print $1 }' | grep -vE "$own" || :)
    [ -z "$lost" ] || { echo "pack.sh: $program finds these elsewhere: $lost" >&2; exit 1; }
done

SOURCE_DATE_EPOCH=$(date -u -d "$date" +%s)
export SOURCE_DATE_EPOCH
deploy/wheel.py "$top" "$version" "$build"
[ "$what" = all ] || exit 0
command -v zstd >/dev/null || { echo "  no zstd found: no tarball"; exit 0; }
tar -C "$build/stage" --owner=0 --group=0 --numeric-owner --sort=name --mtime=@$SOURCE_DATE_EPOCH -cf - "$folder" |
    zstd -q -12 >"$build/$folder.tar.zst"
echo "  $build/$folder.tar.zst"
