# SPDX-License-Identifier: Apache-2.0
# Hosts that are hostile or broken: servers that are no sshd (tests/attack/hosts.py), and real ones whose commands print
# endlessly, stay silent, hang up or print nonsense. Every command about them ends in time, with one sentence per host.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
seed=${ATTACK_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
limit=$((100 * ${TEST_PATIENCE:-1}))
echo "hosts: seed $seed"

# Real servers, whose every command is another one.
mkdir manners
say() { printf '#!/bin/bash\n%s\n' "$2" >"manners/$1" && chmod 755 "manners/$1"; } # NAME SCRIPT
say endless 'exec yes "welcome to this machine"'
say endless-line 'tr "\0" x </dev/zero'
say endless-error 'exec yes "welcome to this machine" >&2'
say quiet 'exec sleep 1000'
say gone 'exit 0'
say refuses 'echo "this account is currently not available" >&2; exit 1'
say garbage 'head -c 100000 /dev/urandom'
say half 'eval "$SSH_ORIGINAL_COMMAND" | head -c 20'
say killed 'kill -9 $PPID'
real=$(cd manners && echo *)
hosts_up ${real//./ }
for h in $real; do
    host_down "$h"
    HOST_EXTRA="ForceCommand $WORK/manners/$h" host_up "$h"
done
cp "$HOME/.ssh/config" config
python3 "$TOP/tests/attack/hosts.py" "$HOME/.ssh/config" "$seed" >ready 2>fakes.log &
fakes=$!
trap 'kill $fakes; hosts_down' EXIT
wait_for "the servers that are none" grep -q ready ready
cat config >>"$HOME/.ssh/config"
all=$(sed -n 's/^Host \([a-z].*\)/\1/p' "$HOME/.ssh/config" | sort -u)

# ends COMMAND...: in time, with a code of ours and a sentence that has no control characters
ends() {
    local got=0
    timeout -k 5 "$limit" "$@" >"out.$h" 2>"err.$h" || got=$?
    case $got in
    1 | 2 | 3 | 4) ;;
    *) echo "exit $got: $*"; head -c 2000 "out.$h" "err.$h"; return 1 ;;
    esac
    [ "$(cat "out.$h" "err.$h" | wc -c)" -lt 8000 ] || { echo "too many words: $*"; head -c 2000 "out.$h"; return 1; }
    ! grep -qP '[\x00-\x08\x0b-\x1f]' "out.$h" "err.$h" ||
        { echo "control characters: $*"; cat -v "out.$h" "err.$h"; return 1; }
    cat "out.$h" "err.$h" | grep -q -e "$h" || { echo "no word of $h: $*"; cat "out.$h" "err.$h"; return 1; }
}
one_host() { # NAME: every command about it
    local h=$1
    printf 'name: on-%s\nlaunch: ssh\nhosts: [%s]\nresources: {ranks: 1, cpus: 1}\nrun: "true"\nretry: {max: 0}\n' \
        "$h" "$h" >"$h.yaml"
    ends jobctl nodes test "$h"
    ends jobctl plan "$h.yaml"
    ends jobctl doctor "$h.yaml"
}
declare -A pid
for h in $all; do
    one_host "$h" >"said.$h" 2>&1 &
    pid[$h]=$!
done
bad=0
for h in $all; do
    wait "${pid[$h]}" || { bad=1; echo "$h:"; cat "said.$h"; }
done
[ $bad = 0 ]

# Submitted, they neither keep the daemon from its other jobs nor stay without a word.
printf 'name: here\nresources: {cpus: 1}\nrun: "true"\n' >here.yaml
for h in $all; do
    jobctl submit -q "$h.yaml" >"job.$h" 2>"refused.$h" || [ -s "refused.$h" ]
done
code 0 timeout 60 jobctl submit -q --wait here.yaml
tells() { says "$h" jobctl why "on-$h"; }
for h in $all; do
    [ ! -s "job.$h" ] || wait_for 120 "a word of $h" tells
done
for h in $all; do
    [ ! -s "job.$h" ] || code 0 timeout 60 jobctl cancel -q --now "$(cat "job.$h")"
done
echo "hosts: $(wc -w <<<"$all") hostile hosts, each with nodes test, plan, doctor and submit"
