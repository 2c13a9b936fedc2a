#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libs.sh FILE CC [static] - write into FILE, for make, the link flags of each program on this machine
#
# pkg-config names the flags of the libraries in libs.txt; a trial link decides whether they work.  With `static`, the
# programs that run on other hosts (jobctl-agent, jobctl-train) take archives, and a shared library where there is no
# archive.  FILE depends on the folders of .pc files: make writes it again after a package
# was installed or removed.  Without compiler or pkg-config it depends on the folders where programs are.
set -euo pipefail
file=$1 cc=$2 static=${3:-}
pkg=${PKG_CONFIG:-pkg-config}
system='-lpthread -ldl -lm -lrt'

agent='libjansson libuv libssl'
train='libjansson libpng libz libjpeg libwebp'
ctl='libsqlite3 libjansson libyaml libuv libmicrohttpd libcurl libssl libz libarchive'
fetch='libcurl libjansson libssl'
ssh='libssh libjansson libuv'
optional='libwebp'
all="$ctl libpng libjpeg libwebp libxxhash"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

declare -A module archive header function cflags shared_flags archive_flags
while IFS='|' read -r name m a h f _; do
    name=${name// /}
    module[$name]=${m// /} archive[$name]=${a// /} header[$name]=${h// /} function[$name]=${f// /}
    cflags[$name]='' shared_flags[$name]='' archive_flags[$name]=''
done < <(grep -v '^#' "${0%/*}/libs.txt")

words() { tr -s ' ' '\n' | grep . | paste -sd' ' || true; }

# The C library stays shared.
own_flags() { tr -s ' ' '\n' | grep -vxE -e '-lpthread|-pthread|-ldl|-lm|-lrt|-lc|' | words; }

# A library that pkg-config does not know may still be found by its name.
ask_shared() { $pkg --libs "${module[$1]}" 2>/dev/null || echo "-l${1#lib}"; }
ask_archive() {
    $pkg --static --libs "${archive[$1]}" 2>/dev/null || $pkg --static --libs "${module[$1]}" 2>/dev/null ||
        echo "-l${1#lib}"
}

as_shared() {
    local n
    for n in "$@"; do [ -z "${function[$n]}" ] || echo "${shared_flags[$n]}"; done | words
}
as_archives() {
    local n
    echo "-Wl,-Bstatic $(for n in "$@"; do echo "${archive_flags[$n]}"; done | words) -Wl,-Bdynamic"
}

trial_source() {
    local n
    printf '#include <%s.h>\n' stdarg stddef stdint stdio setjmp
    for n in "$@"; do echo "#include <${header[$n]}>"; done
    echo 'int main(void) { const void *volatile p = 0;'
    for n in "$@"; do [ -z "${function[$n]}" ] || echo "p = (const void *)${function[$n]};"; done
    echo 'return p == 0; }'
}

# links FLAGS NAME... - does a program that calls these libraries compile, and link with FLAGS?
links() {
    local flags=$1 n include=
    shift
    for n in "$@"; do include+=" ${cflags[$n]}"; done
    trial_source "$@" >"$tmp/trial.c"
    # shellcheck disable=SC2086
    $cc -w $include -o "$tmp/trial" "$tmp/trial.c" $flags $system >/dev/null 2>&1
}

# lacking as_shared|as_archives NAME... - those that do not link; first all at once, to save time
lacking() {
    local as=$1 n
    shift
    ! links "$($as "$@")" "$@" || return 0
    for n in "$@"; do links "$($as "$n")" "$n" || echo "$n"; done | words
}

missing_programs() {
    local p
    for p in "${cc%% *}" "${pkg%% *}"; do command -v "$p" >/dev/null || echo "$p"; done | words
}

missing_of_all() {
    local programs
    programs=$(missing_programs)
    if [ -n "$programs" ]; then echo "$programs"; else lacking as_shared "$@"; fi
}

# program NAME SHARED LIBRARY... - the flags of a program whose libraries SHARED have no archive
program() {
    local name=$1 lack=" $2 " n st=() sh=()
    shift 2
    for n in "$@"; do
        case $lack in *" $n "*) sh+=("$n") ;; *) st+=("$n") ;; esac
    done
    echo "$name := $({ [ ${#st[@]} = 0 ] || as_archives "${st[@]}"; as_shared "${sh[@]}"; echo "$system"; } | words)"
}

# shellcheck disable=SC2086
write_flags() {
    local missing lacks='' agent_shared train_shared n
    missing=" $(missing_of_all $all) "
    for n in $optional; do      # a build without them says what it cannot do
        case $missing in *" $n "*) lacks+="$n " ;; *) continue ;; esac
        missing=${missing/ $n / } train=${train/ $n/} all=${all/ $n/}
        cflags[$n]=-DWITHOUT_${n^^}
    done
    missing=$(words <<<"$missing") agent_shared=$agent train_shared=$train
    echo "# deploy/libs.sh wrote this file."
    echo "LIBS_LACKING := $lacks"
    echo "LIBS_CFLAGS := $(printf '%s\n' "${cflags[@]}" | tr -s ' ' '\n' | sort -u | words)"
    echo "LIBS_MISSING := $missing"
    if [ -n "$static" ] && [ -z "$missing" ]; then
        agent_shared=$(lacking as_archives $agent)
        train_shared=$(lacking as_archives $train)
        echo "AGENT_SHARED := $agent_shared"
        echo "TRAIN_SHARED := $train_shared"
    fi
    program AGENT_LD "$agent_shared" $agent
    program TRAIN_LD "$train_shared" $train
    echo "CTL_LD := $(as_shared $ctl) $system"
    echo "FETCH_LD := $(as_shared $fetch) $system"
    echo "ALL_LD := $(as_shared $all) $system"
    echo "SSH_LD := $(! links "$(as_shared libssh)" libssh || echo "$(as_shared $ssh) $system")"
    echo "TEST_MISSING := $(links "$(as_shared libcmocka)" libcmocka || echo libcmocka)"
    echo "TEST_LD := $(as_shared libcmocka)"
    echo "$file: \$(wildcard $folders)"
}

for n in "${!module[@]}"; do
    shared_flags[$n]=$(ask_shared "$n" | own_flags)
    [ -z "${archive[$n]}" ] || archive_flags[$n]=$(ask_archive "$n" | own_flags)
done
# On most systems the compiler finds every header by itself.
# shellcheck disable=SC2086
if ! links "$(as_shared $all)" $all; then
    for n in "${!module[@]}"; do cflags[$n]=$($pkg --cflags "${module[$n]}" 2>/dev/null || true); done
fi
folders=$({ $pkg --variable pc_path pkg-config 2>/dev/null; echo "${PKG_CONFIG_PATH:-}"; } | tr ':' '\n' | words)
[ -z "$(missing_programs)" ] || folders+=" $(tr ':' '\n' <<<"$PATH" | words)"
write_flags >"$file.new"
mv "$file.new" "$file"
# make would never end if a folder were newer than FILE just written.
for f in $folders; do
    if [ "$f" -nt "$file" ]; then touch -r "$f" "$file"; fi
done
