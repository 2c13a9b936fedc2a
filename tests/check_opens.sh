#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_opens.sh ROOT OBJDIR OBJECT... - files that somebody else can write are opened in one place
#
# A FIFO in place of a file blocks the process that opens it, and a link leads elsewhere. In the safe rooms of
# ROOT/tests/rooms.txt only engine/base/safe_open.h opens files; other sources are exceptions there, with the
# reason why nobody can plant anything. A directory listing (opendir) waits for nothing and is free.
#
# The daemon has one loop, which a hanging file system would block. Sources of the loop rooms that access files by path
# are listed there (files PATH REASON), with the reason why the loop cannot block: usually a thread does it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
cd "$root"
objects=$2
shift 2
nm -A -P "$@" | sed "s|^$objects/||; s/\.o: / /" | awk "$(cat "$here/rooms.awk")"'
BEGIN {
    read_rooms("tests/rooms.txt")
    words_into(bare, "open openat openat2 creat fopen freopen readlink readlinkat json_load_file json_dump_file")
    words_into(by_path, "open openat creat fopen freopen stat lstat fstatat access faccessat unlink unlinkat rename " \
               "renameat mkdir mkdirat rmdir opendir realpath readlink statvfs statfs link symlink truncate chmod chown " \
               "safe_open safe_open_linked safe_open_stream safe_open_json safe_open_dir safe_open_has capture_open " \
               "log_reader_read dir_walk_next uv_fs_event_start")
}
# The names that compilers and C libraries give the same functions: open64, __open_2, __lxstat64.
function plain(name) {
    sub(/@.*/, "", name); sub(/^__/, "", name); sub(/(64)?(_2|_chk)?$/, "", name)
    if (name ~ /^[lf]?xstat(at)?$/) sub(/x/, "", name)
    return name
}
{ seen[folder_of($1)]++ }
$3 == "U" && folder_of($1) in loop && plain($2) in by_path {
    path = $1 ".c"
    if (path in pathed) used["files", path] = 1
    else fail(path " calls " plain($2) "(): leave it to a thread (controller/base/file_work.h), and say in tests/rooms.txt " \
              "why the loop does not wait for it")
}
$3 == "U" && folder_of($1) in safe && plain($2) in bare {
    path = $1 ".c"
    if (path in opens) used["opens", path] = 1
    else fail(path " calls " plain($2) "(): use engine/base/safe_open.h, or say in tests/rooms.txt why not")
}
END {
    for (name in safe) { rooms_found++; if (!(name in seen)) fail("tests/rooms.txt: safe " name " has no source") }
    some(rooms_found, "safe rooms")
    for (name in loop) { loops_found++; if (!(name in seen)) fail("tests/rooms.txt: loop " name " has no source") }
    some(loops_found, "loop rooms")
    all_used("opens", opens, "is no exception any more")
    all_used("files", pathed, "names no files by a path any more")
    exit bad
}'
