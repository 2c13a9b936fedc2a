# SPDX-License-Identifier: Apache-2.0
# A job whose weights are on a hub: output of plan, doctor and submit, who downloads, which commit is trained, and what
# happens without network.
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
export HF_TOKEN=hf_aVerySecretTokenOfTests1234567890
cp -r "$TOP/templates/data/tango-icons" data
spec() { # NAME MODEL-MEMBERS
    cat >"$1.yaml" <<YAML
name: $1
resources: {gpus: 0}
train: {model: {preset: tiny$2}, data: {path: data, caption_words: 4}, batch: {global: 4}, steps: 2,
        sample: {after: false}}
checkpoint: {every: 100 steps}
retry: {max: 2, backoff: 1s..2s}
YAML
}
spec native ""
jobctl submit -q --wait native.yaml
mkdir tiny
cp "$(jobctl show native --json | field paths.checkpoints)"/step-00000002/model.safetensors tiny/
commit=$(add me/tiny tiny)
at=$(cache me/tiny)
spec of-hub ', weights: "hf://me/tiny"'

# Before anything is downloaded: how much it is, and which commit.
faults "\"token\":\"$HF_TOKEN\""
code 0 jobctl plan of-hub.yaml
has "train.model.weights: me/tiny at commit ${commit:0:12}: 1 file, " out
has 'of which 1 (' out
has "weights     hf://me/tiny@$commit: not in this machine's cache" out
code 0 jobctl submit --dry-run of-hub.yaml
has 'will be downloaded from 127.0.0.1' err
code 0 jobctl doctor of-hub.yaml
matches '^ok  *models  *me/tiny at commit .* will be downloaded' cat out
[ ! -e "$at" ]

# The job downloads before its ranks start, trains from the commit, and its token is nowhere.
code 0 jobctl submit --wait of-hub.yaml
code 0 jobctl logs --events of-hub
has 'its models are on every node, after' out
has 'download of its models started' out
[ "$(events_of of-hub kind=fetch_done exit_code)" = 0 ]
[ "$(last_event of-hub kind=fetch_progress text)" = "788.5 kB of 788.5 kB" ]
code 0 jobctl-train inspect "hf://me/tiny@$commit"
has "$at/snapshots/$commit/model.safetensors" out
[ "$(jobctl show of-hub --json | field spec.train.model.weights)" = "hf://me/tiny@$commit" ]
jobctl logs of-hub >out
has "from $at/snapshots/$commit/model.safetensors" out
[ "$(asked store Bearer)" = 0 ]
[ "$(asked hub "Bearer $HF_TOKEN" | tr -d ' ')" -ge 2 ]
if grep -rlF "$HF_TOKEN" "$JOBCTL_HOME" .cache | grep -v '/secrets.env$'; then exit 1; fi

# main moves on: a retry of the job, and a job that names the commit, train what was named, without network.
cp tiny/model.safetensors old.safetensors
python3 - <<'PY'
import sys
data = bytearray(open("tiny/model.safetensors", "rb").read())
data[-4:] = b"\0\0\0\0"
open("tiny/model.safetensors", "wb").write(data)
PY
second=$(add me/tiny tiny)
[ "$second" != "$commit" ]
stop_hub
jobctl retry of-hub >out
jobctl wait of-hub
[ "$(jobctl show of-hub --json | field spec.train.model.weights)" = "hf://me/tiny@$commit" ]
spec pinned ", weights: \"hf://me/tiny@$commit\""
code 0 jobctl submit --wait pinned.yaml
code 0 jobctl plan pinned.yaml
has 'weights     Sana' out

# Without network: what is missing is told before the job, with the command that brings it.
spec absent ', weights: "hf://me/other"'
code 2 jobctl submit absent.yaml
has 'absent.yaml:3:' err
has "train.model.weights: no answer from 127.0.0.1: Couldn't connect to server; missing in the cache $WORK/.cache" err
has 'run `jobctl fetch hf://me/other` where there is network and this directory' err
code 1 jobctl doctor absent.yaml
matches '^fail  *models  *no answer from 127.0.0.1' cat out
code 2 jobctl fetch --check nothing.yaml

# The hub goes away after the submit: its own cause, tried again with a pause, and then the end.
start_hub
jobctl fetch --check hf://me/tiny >out
has "at commit ${second:0:12}" out
spec lost ', weights: "hf://me/tiny"'
faults "\"token\":\"$HF_TOKEN\",\"id\":\"away\""
id=$(jobctl submit -q --hold lost.yaml)
faults '"fail":[503,503,503,503,503,503,503,503,503,503,503,503,503,503,503]'
jobctl hold --off "$id" >/dev/null
code 93 jobctl wait "$id"
[ "$(last_event "$id" kind=attempt_ended cause)" = network_error ]
code 0 jobctl why "$id"
has "the download of the job's models failed: no answer from 127.0.0.1: HTTP status 503; missing in the cache" out
[ "$(events_of "$id" kind=fetch_started kind | wc -l)" -ge 2 ]

# A repository that is closed to this user cannot be trained from, however often it is tried.
faults '"gated":["me/tiny"]'
spec gated ', weights: "hf://me/tiny"'
code 2 jobctl submit gated.yaml
has 'train.model.weights: me/tiny: access is restricted (HTTP 403)' err

# A spec brings its models ahead, in the environment that its job has.
faults
sed 's/^retry:.*/env: {HF_HOME: '"${WORK//\//\\/}"'\/mine}/' of-hub.yaml >mine.yaml
code 0 jobctl fetch mine.yaml
has "$WORK/mine/hub/models--me--tiny/snapshots/$second" out
jobctl daemon stop >/dev/null 2>&1 || :
