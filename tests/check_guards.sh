#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_guards.sh - checks that each guard refuses what it should, and fails with nothing to check
#
# A small house that all guards accept is built once. Each case copies it, breaks one thing and expects one
# guard to fail with one sentence.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
work=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-guards.XXXXXX")
trap 'rm -rf "$work"' EXIT
bad=0 cases=0

# file PATH TEXT [LINE...]: a source whose first comment says TEXT, then LINEs.
file() {
    local path=$1 text=$2
    shift 2
    mkdir -p "$(dirname "$path")"
    printf '/* SPDX-License-Identifier: Apache-2.0 */\n/* %s - %s\n */\n' "$(basename "$path")" "$text" >"$path"
    printf '%s\n' "$@" >>"$path"
}
pure=$'so\n *\n * Pure: no clock, no I/O.'

compile() {
    local f
    for f in "$@"; do
        mkdir -p "obj/$(dirname "$f")"
        $cc -I. -c -o "obj/${f%.c}.o" "$f"
    done
}

small_house() {
    file engine/contract/err.h 'errors' 'int err_set(int code);'
    file engine/contract/err.c 'errors' '#include "engine/contract/err.h"' 'int err_set(int code) { return code; }'
    file engine/step/step.h 'a step' 'int step_take(void);'
    file engine/step/step.c 'a step' '#include "engine/contract/err.h"' '#include "engine/step/step.h"' \
        'int step_take(void) { return err_set(1); }'
    file agent/os/log.h 'lines' 'int log_line(void);'
    file agent/os/log.c 'lines' '#include <fcntl.h>' '#include "agent/os/log.h"' '#include "engine/contract/err.h"' \
        'int log_line(void) { return err_set(open("/dev/null", O_RDONLY)); }'
    file agent/core/verdict.h "$pure" 'int verdict_of(int seen);' 'int verdict_part(int seen);'
    file agent/core/verdict.c 'see verdict.h' '#include "agent/core/verdict.h"' '#include "engine/contract/err.h"' \
        'int verdict_of(int seen) { return err_set(verdict_part(seen)); }'
    file agent/core/verdict_part.c "$pure" '#include "agent/core/verdict.h"' \
        'int verdict_part(int seen) { return -seen; }'
    file agent/core/round.h 'rounds' 'int round_begin(void);' 'int round_end(void);'
    file agent/core/round.c 'rounds' '#include "agent/core/round.h"' '#include "agent/core/verdict.h"' \
        '#include "agent/os/log.h"' 'int round_begin(void) { return verdict_of(log_line()); }' \
        'int round_end(void) { return 0; }'
    file agent/main.c 'the program' '#include "agent/core/round.h"' 'int main(void) { return round_begin(); }'
    mkdir -p tests/e2e/cli docs
    printf '%s\n' '# SPDX-License-Identifier: Apache-2.0' 'sleep 3 # how long the cut is' '! false || exit 1' 'cat >job.yaml <<YAML' \
        '  until [ -e go ]; do sleep 0.1; done' 'YAML' 'printf "run: until [ -e go ]; do sleep 1; done\n" >job.yaml' \
        'wait_for "it runs" job_is 1 state running' 'jobctl show 1 --json | field job.state' >tests/e2e/cli/good.sh
    cat >tests/rooms.txt <<'ROOMS'
room engine/contract what others may know
room engine/step steps
room agent/os the system
  uses engine/contract/err.h
room agent/core decisions
  uses engine/contract/
room agent the program
column engine
column agent
pure verdict verdict_part
borrows err_set
safe agent/os agent/core
opens agent/os/log.c it is the place
loop agent/os
files agent/os/log.c thread: it has its own
ROOMS
    printf '# House\n<!-- rooms -->\n<!-- end -->\n' >docs/HOUSE.md
    printf '<!-- %s -->\n    $ jobctl\n<!-- end -->\n' transcript drill >README.md
    compile $(find . -name '*.c' ! -name main.c | sed 's|^\./||')
}

layers() { "$here/check_layers.sh" . agent engine; }
layers_of_three() { "$here/check_layers.sh" . agent engine kernels; }
circles() { "$here/check_circles.sh" . obj $(find obj -name '*.o'); }
prefixes() { "$here/check_prefixes.sh" . obj $(find obj -name '*.o'); }
opens() { "$here/check_opens.sh" . obj $(find obj -name '*.o'); }
json() { "$here/check_json.sh" . obj $(find obj -name '*.o'); }
pure() { "$here/check_pure.sh" . obj; }
house() { "$here/check_house.sh" .; }
scripts() { "$here/check_scripts.sh" tests; }
tree() { # a checkout has its objects in build/
    local rc=0
    mv obj build
    "$here/check_tree.sh" . || rc=1
    mv build obj
    return $rc
}
docs() { "$here/check_docs.sh" . bin; }
known() { tests/mutants/mutate.py --known 0; }

# refuses GUARD SENTENCE: in the copy that this case has broken; then the copy goes.
refuses() {
    local guard=$1 sentence=$2 said rc=0
    said=$($guard 2>&1) || rc=$?
    cases=$((cases + 1))
    if [ $rc = 0 ] || [[ $said != *"$sentence"* ]]; then
        printf 'case %d: %s exits with %d and does not say: %s\nbut: %s\n' \
            $cases "$guard" $rc "$sentence" "$said" >&2
        bad=1
    fi
    cd "$work"
    rm -rf broken
}
broken() { cd "$work" && cp -R good broken && cd broken; }
# add PATH LINE...: at the end of a file; a source is compiled again.
add() {
    local path=$1
    shift
    printf '%s\n' "$@" >>"$path"
    case $path in *.c) compile "$path" ;; esac
}

mkdir "$work/good" && cd "$work/good"
small_house
"$here/check_house.sh" --write .
for guard in layers circles prefixes opens json pure house scripts tree; do
    $guard || { echo "check_$guard.sh refuses a house that is right" >&2; exit 1; }
done

# Includes.
broken; add agent/os/log.c '#include "agent/core/round.h"'
refuses layers 'agent/os/log.c may not include agent/core/round.h: it is above it'
broken; add engine/contract/err.h '#include "agent/os/log.h"'
refuses layers 'engine/contract/err.h may not include agent/os/log.h: it is above it'
broken; add agent/core/round.c '#include "engine/step/step.h"'
refuses layers 'agent/core/round.c may not include engine/step/step.h: tests/rooms.txt does not permit it'
broken; file agent/side/main.c 'a program' '#include "agent/os/log.h"'
printf '%s\n' 'room agent/side a program' '  program' >>tests/rooms.txt
refuses layers 'agent/side/main.c may not include agent/os/log.h: a program of its own shares nothing'
broken; add agent/core/round.c '#include "round.h"'
refuses layers 'agent/core/round.c includes "round.h" without its folder'
broken; add agent/core/round.c '#include <nccl.h>' 2>/dev/null || :
refuses layers 'agent/core/round.c may not include a header of CUDA or NCCL'
broken; add tests/rooms.txt 'only agent/os/log.h agent/core/verdict.c'
refuses layers 'agent/core/round.c may not include agent/os/log.h: only some files may'
broken; add tests/rooms.txt 'only agent/os/log.h agent/core/round.c agent/os/log.c agent/main.c'
refuses layers 'only agent/os/log.h agent/main.c permits nothing'

# The list of rooms.
broken; file agent/new/thing.c 'a thing'
refuses layers 'agent/new/ has sources and is in no list'
broken; file kernels/thing.c 'a thing'
refuses layers_of_three 'kernels/ has sources and is in no list'
broken; add tests/rooms.txt 'room agent/empty nothing'
refuses layers 'room agent/empty has no sources'
broken; add tests/rooms.txt '  uses engine/step/'
refuses layers 'uses agent engine/step/ permits nothing'
broken; for n in $(seq 31); do for e in c h; do file agent/os/n$n.$e 'one of many'; done; done
refuses layers 'agent/os/ has 32 nouns, which is more than 30'
broken; add tests/rooms.txt 'crowded agent/os it was'
refuses layers 'crowded agent/os is no exception any more'
broken; add tests/rooms.txt 'rooom agent/os twice'
refuses layers 'what is this line? rooom'
broken; : >tests/rooms.txt
refuses layers 'nothing was checked'
broken; echo 'int a;' >agent/os/bare.h
refuses layers 'agent/os/bare.h has no SPDX line'

# Calls.
broken; add agent/core/verdict_part.c 'int round_end(void);' 'int verdict_back(void) { return round_end(); }'
refuses circles $'these call each other in a circle:\nagent/core/'
broken; add agent/os/log.c 'int round_end(void);' 'int log_back(void) { return round_end(); }'
refuses circles 'agent/os/log.c may not use round_end of agent/core/round.c: it is above it'
broken; add agent/os/log.c 'int step_take(void);' 'int log_step(void) { return step_take(); }'
refuses circles 'agent/os/log.c may not use step_take of engine/step/step.c: tests/rooms.txt does not permit it'
broken; rm obj/agent/os/log.o
refuses circles 'agent/os/log.c has no object'
broken; rm -r obj; mkdir obj
refuses circles 'nothing was checked'
broken; for f in $(find obj -name '*.o'); do strip -s "$f"; done
refuses circles 'found no symbols: nothing was checked'
broken; add tests/rooms.txt 'apart plugin loaded by others'
refuses circles 'apart plugin is no exception any more'

# Prefixes.
broken; add engine/step/step.c 'int log_step(void) { return 0; }'
refuses prefixes 'log_step() is defined in engine/step/step.c, but log_ is the prefix of log.c'
broken; file engine/step/log.c 'lines' 'int log_step(void) { return 0; }'; compile engine/step/log.c
refuses prefixes 'log_ is the prefix of'
broken; file agent/core/log.c 'lines'
refuses prefixes 'agent/core/log.c and agent/os/log.c have one name'
broken; add engine/step/step.c 'int log_line(void) { return 0; }'
refuses prefixes 'log_line() is defined in'
broken; add tests/rooms.txt 'prefix log_ it was' 'twice log_line it was'
refuses prefixes 'prefix log_ is no exception any more'
broken; rm -r obj; mkdir obj
refuses prefixes 'nothing was checked'

# Pure files.
broken; add agent/core/verdict.c '#include <time.h>' 'long verdict_time(void) { return time(0); }'
refuses pure 'agent/core/verdict.c is not pure: it calls time()'
broken; add agent/core/verdict_part.c '#include <stdio.h>' 'int verdict_file(void) { return !fopen("a", "r"); }'
refuses pure 'agent/core/verdict_part.c is not pure: it calls fopen'
broken; add agent/core/verdict.c '#include "agent/os/log.h"' 'int verdict_log(void) { return log_line(); }'
refuses pure 'agent/core/verdict.c is not pure: it calls log_line()'
broken; add agent/core/verdict.c 'int verdict_count(void) { static int seen; return ++seen; }'
refuses pure 'agent/core/verdict.c is not pure: it keeps seen'
broken; sed -i '/Pure/d' agent/core/verdict.h
refuses pure 'verdict is listed as pure, but no first comment says'
broken; sed -i 's/Pure: .*/Pure. It says what was seen./' agent/core/verdict.h
refuses pure 'agent/core/verdict.h speaks of being pure, but has no line'
broken; sed -i '/Pure/d' agent/core/verdict_part.c
refuses pure 'agent/core/verdict_part.c is a part of agent/core/verdict.h, which is pure, but'
broken; sed -i 's/^pure verdict /pure /' tests/rooms.txt
refuses pure 'agent/core/verdict.h is pure, but tests/rooms.txt does not list it'
broken; sed -i '/^pure/d' tests/rooms.txt; sed -i '/Pure/d' agent/core/verdict*
refuses pure 'found no pure files: nothing was checked'
broken; rm obj/agent/core/verdict.o
refuses pure 'agent/core/verdict.c is pure, but has no object'
broken; rm -r obj; mkdir obj
refuses pure 'has no object: it was not checked'
broken; add tests/rooms.txt 'borrows log_line'
refuses pure 'borrows log_line is called by no pure file'

# The page and the picture.
broken; add tests/rooms.txt 'code 10'
refuses house 'more than the 10 that tests/rooms.txt permits'
broken; sed -i 's|the system|systems|' docs/HOUSE.md
refuses house 'docs/HOUSE.md is not what the files say'
broken; sed -i 's/^room agent\/os .*/room agent\/os files/' tests/rooms.txt
refuses house 'docs/rooms.svg is not what the files say'
broken; sed -i '/<!-- drill/,$d' README.md
refuses house 'README.md has no session after <!-- drill -->'
broken; sed -i 's/log.h - /lag.h - /' agent/os/log.h
refuses house 'agent/os/log.h: its second line says that it is lag.h'

# What the documents name.  Three programs that know one command each are all that it takes.
broken
mkdir bin tests/unit
echo 'static void a_line_is_written(void **state)' >tests/unit/test_log.c
for name in jobctl jobctl-agent jobctl-train; do
    printf '#!/bin/sh\n[ "${2:-go}" = go ] || exit 2\necho "%s go --now"\n' $name >bin/$name
    chmod +x bin/$name
done
printf 'all:\n' >Makefile
cat >docs/HOUSE.md <<'PAGE'
# House
`agent/os/log.h` (a_line_is_written) [up](../README.md) [here](#house) `make all`

    jobctl go --now
    jobctl-train go --now
PAGE
printf '[page](docs/HOUSE.md#house)\n\n    jobctl go --now\n' | tee README.md >README.zh-CN.md
docs || { echo "check_docs.sh refuses documents that are right" >&2; exit 1; }
cd "$work" && mv broken documents
# wrong LINE SENTENCE: this line in a document is refused.
wrong() {
    cd "$work" && cp -R documents broken && cd broken
    printf '\n%s\n' "$1" >>docs/HOUSE.md
    refuses docs "$2"
}
wrong '`agent/os/lag.h`' 'docs/HOUSE.md: there is no agent/os/lag.h'
wrong '`test_lag.c`' 'there is no unit test test_lag.c'
wrong 'shown by (a_test_that_went)' 'no unit test has a function a_test_that_went'
wrong '[away](AWAY.md)' 'docs/HOUSE.md: the link to AWAY.md leads nowhere'
wrong '[away](#away)' 'docs/HOUSE.md: no heading of docs/HOUSE.md is #away'
wrong_chinese() { cd "$work" && cp -R documents broken && cd broken && echo "$1" >README.zh-CN.md && refuses docs "$2"; }
wrong_chinese '[page](docs/HOUSE.md#house)' 'README.zh-CN.md: its commands are not those of README.md'
wrong_chinese '    jobctl go --now' 'README.zh-CN.md: its targets are not those of README.md'
wrong '    jobctl went --now' 'there is no command jobctl went'
wrong '    true; jobctl go --later' 'jobctl go has no option --later'
wrong '`jobctl-train went`' 'there is no command jobctl-train went'
wrong '`make none`' 'the Makefile has no target none'
cd "$work" && cp -R documents broken && cd broken
echo '# House' >docs/HOUSE.md
refuses docs 'found no paths: nothing was checked'
cd "$work" && cp -R documents broken && cd broken
echo '| `a line … is lost` | ' >docs/TROUBLESHOOTING.md
refuses docs 'docs/TROUBLESHOOTING.md: no program prints: is lost'

# Scripts of tests.
broken; add tests/e2e/cli/good.sh 'until [ -e go ]; do sleep 0.1; done'
refuses scripts './e2e/cli/good.sh:10: a loop that sleeps: say wait_for'
broken; add tests/e2e/cli/good.sh 'while ! [ -e go ]; do sleep 1; done # it comes'
refuses scripts 'a loop that sleeps: say wait_for'
broken; add tests/e2e/cli/good.sh 'for _ in $(seq 9); do' '    sleep 0.1' 'done'
refuses scripts './e2e/cli/good.sh:11: a sleep: wait_for an event'
broken; add tests/e2e/cli/good.sh '! grep secret file'
refuses scripts 'this tests nothing'
broken; add tests/e2e/cli/good.sh 'jobctl show 1 --json | sed -n s/a/b/p'
refuses scripts 'JSON is read as text'
broken; add tests/e2e/cli/good.sh "pid=\$(sed -n 's/.*\"pid\": *\([0-9]*\).*/\1/p' agent.json)"
refuses scripts 'JSON is read as text'
broken; rm tests/e2e/cli/good.sh
refuses scripts 'nothing was checked'

# Opens.
broken; add agent/core/round.c '#include <fcntl.h>' 'int round_read(void) { return open("log", O_RDONLY); }'
refuses opens 'agent/core/round.c calls open(): '
broken; add agent/core/round.c '#include <stdio.h>' 'FILE *round_read(void) { return fopen("log", "r"); }'
refuses opens 'agent/core/round.c calls fopen(): '
broken; sed -i 's/^safe .*/safe agent\/os agent\/no/' tests/rooms.txt
refuses opens 'safe agent/no has no source'
broken; sed -i 's/^safe .*/safe agent\/core/' tests/rooms.txt
refuses opens 'opens agent/os/log.c is no exception any more'
broken; sed -i '/^safe/d; /^opens/d' tests/rooms.txt
refuses opens 'found no safe rooms: nothing was checked'
broken; sed -i 's/^loop .*/& agent\/core/' tests/rooms.txt; add agent/core/round.c 'int remove_round(void);' 'int rmdir(const char *);' \
    'int remove_round(void) { return rmdir("x"); }'
refuses opens 'agent/core/round.c calls rmdir(): leave it to a thread'
broken; sed -i 's/^loop .*/& agent\/no/' tests/rooms.txt
refuses opens 'loop agent/no has no source'
broken; add tests/rooms.txt 'files agent/core/round.c thread'
refuses opens 'files agent/core/round.c names no files by a path any more'
broken; sed -i '/^loop/d; /^files/d' tests/rooms.txt
refuses opens 'found no loop rooms: nothing was checked'

# JSON.
broken; add agent/core/round.c 'void *json_pack(const char *, ...);' 'void *round_say(void) { return json_pack("s", "x"); }'
refuses json 'agent/core/round.c calls json_pack(): use json_make()'
broken; add agent/core/round.c 'void *json_string(const char *);' 'void *round_say(void) { return json_string("x"); }'
refuses json 'agent/core/round.c calls json_string(): use json_text()'
broken; add tests/rooms.txt 'exact agent/core/round.c names'
refuses json 'exact agent/core/round.c is no exception any more'
broken; rm -r obj; mkdir obj
refuses json 'nothing was checked'

# Files.
broken; echo 'Host one' >config
refuses tree 'config: nothing like it belongs there'
broken; echo 'a' >agent/os/log.c~
refuses tree 'agent/os/log.c~: a tool left it behind'
broken; mkdir scratch; echo 'a' >scratch/a.c
refuses tree 'scratch/a.c: nothing like it belongs there'
broken; printf 'int a;\0' >agent/os/a.c
refuses tree 'agent/os/a.c: not text'
broken; head -c 2200000 /dev/zero | tr '\0' '\n' >docs/LONG.md
refuses tree 'docs/LONG.md: 2200000 bytes are too many'
broken; file tests/unit/agent/os/test_log.c 'a test' 'int main(void) { return system("true"); }'
refuses tree 'tests/unit/agent/os/test_log.c: starts a program'
broken; rm -r README.md agent docs engine tests
refuses tree 'nothing was checked'

# Planted faults.
broken; mkdir tests/mutants; cp "$here/mutants/mutate.py" tests/mutants
printf '== agent/os/log.c | unit/agent/os/test_log\n- return false;\n+ return true;\n' >tests/mutants/known.txt
refuses known 'tests/mutants/known.txt: agent/os/log.c has this text 0 times, expected once'

[ $bad = 0 ] || exit 1
[ $cases -gt 40 ] || { echo "check_guards.sh: only $cases cases were tried" >&2; exit 1; }
echo "guards refuse what they must: $cases cases"
