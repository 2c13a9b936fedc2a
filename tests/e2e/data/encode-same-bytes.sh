# SPDX-License-Identifier: Apache-2.0
# A cache of encoded pictures and captions has the same bytes whether made by one rank, by two or three, or by ranks
# that are killed repeatedly.
. "$TOP/tests/e2e/wait.sh"
. "$TOP/tests/e2e/encoders.sh"
. "$TOP/tests/e2e/ranks.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 9

# spec NAME: with a cache of its own
spec() {
    encode_spec "$1.json" "$WORK/pics" "\"cache\":\"$WORK/$1.cache\""
    sed -i 's/"resolution":32/"resolution":64/' "$1.json"
}
same() {
    shards "$1.cache" >"$1.sums"
    diff one.sums "$1.sums" || { echo "$1: other bytes"; cat "$1".*.log; exit 1; }
    gone "$(find "$1.cache" -name '.tmp-*' | head -n 1)" || { echo "$1: a temporary file is left"; exit 1; }
}

spec one
rank 0 1 one
shards one.cache >one.sums
[ "$(grep -c latents- one.sums)" = 3 ] && [ "$(grep -c text- one.sums)" = 4 ] || { cat one.sums; exit 1; }
grep -q '9 of 9 pictures and 10 of 10 captions are to be encoded' one.0.log

for n in 2 3; do
    spec "of$n"
    pids=
    for r in $(seq 0 $((n - 1))); do rank "$r" "$n" "of$n" & pids="$pids $!"; done
    for p in $pids; do wait "$p" || { cat "of$n".*.log; exit 1; }; done
    same "of$n"
done

# Killed after some milliseconds, each time a few more, until it has had the time to end.
spec killed
kill_until_it_ends killed 20
same killed
