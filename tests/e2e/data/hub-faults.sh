# SPDX-License-Identifier: Apache-2.0
# Downloads that are cut, killed, damaged, refused for a while, or requested by two processes at once: each ends with
# the right bytes and no byte downloaded twice, or with an error.
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
model() { mkdir -p "$1" && head -c "${2:-300000}" /dev/urandom >"$1/model.safetensors" && add "me/$1" "$1" >/dev/null; }
blob() { echo "$(cache "me/$1")/blobs/$(sha256sum <"$1/model.safetensors" | cut -d' ' -f1)"; }
right() { cmp "$1/model.safetensors" "$(blob "$1")" && [ ! -e "$(blob "$1").incomplete" ]; }
fetch() { code "$1" jobctl-fetch --tries 3 "${@:2}"; }

# The connection is cut twice: each time it goes on at the byte.
model cut
forget
faults '"cut":[100000,70000]'
fetch 0 hf://me/cut
right cut
[ "$(grep -o '"range": [^,]*' "$hub/log" | grep -v null | tr '\n' ' ')" = \
    '"range": "bytes=100000-" "range": "bytes=100000-" "range": "bytes=170000-" "range": "bytes=170000-" ' ]
has 'trying again in 0.25 s (1 of 2)' err

# A store that knows no ranges begins anew, and the file is right all the same.
model whole
faults '"cut":[100000],"no_range":true'
fetch 0 hf://me/whole
right whole

# kill -9 in the middle: what was written counts.
model killed
forget
faults '"stall":120000'
jobctl-fetch hf://me/killed 2>/dev/null &
written() { [ "$(stat -c %s "$(blob killed).incomplete" 2>/dev/null || echo 0)" = 120000 ]; }
wait_for "120000 bytes are written" written
kill -9 $!
{ wait $! || :; } 2>/dev/null
faults
touch "$hub/go"
code 0 jobctl fetch --check hf://me/killed
has 'of which 1 (180.0 kB) will be downloaded' out
fetch 0 hf://me/killed
right killed
[ "$(asked store 'bytes=120000-')" = 1 ]
has 'model.safetensors: continuing after 120000 of 300000 bytes' err

# A part that another process left damaged is found out by the digest, and everything comes once more.
model rotten
mkdir -p "$(dirname "$(blob rotten)")"
head -c 50000 /dev/zero >"$(blob rotten).incomplete"
fetch 0 hf://me/rotten
right rotten
has ': downloading it once more' err

# Wrong bytes are never given a name; twice wrong is an error of the data.
model wrong
faults '"wrong":1'
fetch 0 hf://me/wrong
right wrong
model false
faults '"wrong":9'
fetch 65 hf://me/false
has 'jobctl-fetch: model.safetensors: the downloaded file has the digest ' err
has 'the file is damaged, in transit or on the hub. Try again later' err
[ ! -e "$(blob false)" ] && [ ! -e "$(blob false).incomplete" ]
[ ! -e "$(cache me/false)/snapshots" ]

# Too many requests, a server in trouble: later; longer than is bearable: an error of the network.
model later
faults '"fail":[429,503,null],"after":1'
fetch 0 hf://me/later
right later
has 'no answer from 127.0.0.1: HTTP status 429; trying again in 1 s' err
has 'HTTP status 503; trying again in 1 s (2 of 2)' err
model never
faults '"fail":[500,500,500,500]'
fetch 82 hf://me/never
has 'run `jobctl fetch hf://me/never`' err
has 'no answer from 127.0.0.1: HTTP status 500' err
faults '"fail":[429,429],"after":3600'
fetch 82 hf://me/never
lacks 'trying again' err

# Two at once: one downloads, the other waits for it.
model both
rm "$hub/go"
forget
faults '"stall":120000'
jobctl-fetch hf://me/both 2>first &
one=$!
written() { [ "$(stat -c %s "$(blob both).incomplete" 2>/dev/null || echo 0)" = 120000 ]; }
wait_for "the first one downloads" written
jobctl-fetch hf://me/both 2>second &
two=$!
wait_for "the second one waits" grep -F 'waiting for another process that is downloading model.safetensors' second
touch "$hub/go"
wait $one
wait $two
right both
[ "$(asked store model.safetensors)" = 1 ]

# A full disk: known before, and where it is not, told as what it is; what was written stays.
model full 3000000
faults
(
    trap '' XFSZ
    ulimit -f 1000
    fetch 78 hf://me/full
)
has "cannot write $(blob full).incomplete: File too large" err
fetch 0 hf://me/full
right full
