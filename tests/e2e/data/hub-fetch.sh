# SPDX-License-Identifier: Apache-2.0
# jobctl fetch: which files of a repository are downloaded, the layout of the cache, where the token is sent; the cache
# without network.
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
big() { head -c "$1" /dev/urandom; }

# A diffusers pipeline in several forms: once is enough.
mkdir -p pipe/{transformer,vae,text_encoder,tokenizer,.hidden}
echo '{}' | tee pipe/model_index.json pipe/vae/config.json pipe/transformer/config.json >pipe/text_encoder/config.json
big 30000 >pipe/transformer/model-00001-of-00002.safetensors
big 20000 >pipe/transformer/model-00002-of-00002.safetensors
echo '{"weight_map":{}}' >pipe/transformer/model.safetensors.index.json
big 40000 >pipe/transformer/model.fp16.safetensors
big 40000 >pipe/transformer/pytorch_model.bin
big 5000 >pipe/vae/model.safetensors
big 5000 >pipe/vae/model.fp16.safetensors
big 6000 >pipe/text_encoder/model.safetensors
echo '{"a":1}' >pipe/tokenizer/tokenizer.json
echo text | tee pipe/README.md >pipe/.hidden/x.json
commit=$(add me/pipe pipe)
at=$(cache me/pipe)

# --check downloads nothing; what a run needs of a pipeline is one part of it.
code 0 jobctl fetch --check hf://me/pipe
has "me/pipe at commit ${commit:0:12}: 10 files, 61.0 kB, of which 10 (61.0 kB) will be downloaded from 127.0.0.1" out
[ ! -e "$at" ]
code 0 jobctl fetch --check --part vae hf://me/pipe --json
json "o['names'][0]['files'] == 3 and o['names'][0]['missing_bytes'] == 5006 and o['names'][0]['commit'] == '$commit'"

# The token goes to the hub and not to its store, and is in no output.
export HF_TOKEN=hf_aVerySecretTokenOfTests1234567890
faults "\"token\":\"$HF_TOKEN\""
forget
code 0 jobctl fetch hf://me/pipe
has "$at/snapshots/$commit" out
[ "$(asked hub "Bearer $HF_TOKEN")" = 11 ] # the list, 4 large files, 3 different small ones with a redirect each
[ "$(asked store 'token": null')" = 4 ]
[ "$(asked store Bearer)" = 0 ]
lacks "$HF_TOKEN" out
lacks "$HF_TOKEN" err
lacks Signature err
no_token
code 2 jobctl fetch hf://me/pipe --part vae
has 'me/pipe: 127.0.0.1 asks for a token (HTTP 401): check the name, and set HF_TOKEN, or log in with `hf auth login`' err

# The layout is huggingface_hub's: a link per file, a blob per content, named by its digest.
cmp pipe/transformer/model-00001-of-00002.safetensors "$at/snapshots/$commit/transformer/model-00001-of-00002.safetensors"
digest=$(sha256sum <pipe/vae/model.safetensors | cut -d' ' -f1)
[ "$(readlink "$at/snapshots/$commit/vae/model.safetensors")" = "../../../blobs/$digest" ]
[ "$(readlink "$at/snapshots/$commit/model_index.json")" = "../../blobs/$(git hash-object pipe/model_index.json)" ]
[ "$(cat "$at/refs/main")" = "$commit" ]
[ -e "$at/../.locks/models--me--pipe/$digest.lock" ]
(cd "$at/snapshots/$commit" && find . -name '*fp16*' -o -name '*.bin' -o -name README.md -o -name x.json) >"$WORK/out"
empty out
(cd "$at/blobs" && ls | grep -v '^[0-9a-f]*$' || :) >"$WORK/out"
empty out

# The token file, as `hf auth login` writes it.
mkdir -p .cache/huggingface
echo "hf_aVerySecretTokenOfTests1234567890" >.cache/huggingface/token
code 0 jobctl fetch hf://me/pipe
has ', all in the cache' out
rm .cache/huggingface/token
faults

# A new commit of main: only what changed is downloaded; the old one is still there.
echo '{"new":1}' >pipe/vae/config.json
second=$(add me/pipe pipe)
code 0 jobctl fetch hf://me/pipe
[ "$(cat "$at/refs/main")" = "$second" ]
forget
code 0 jobctl fetch --part vae "hf://me/pipe@$commit"
[ ! -s "$hub/log" ] # a commit that is there needs no network
code 0 jobctl fetch "hf://me/pipe@$commit/vae/model.safetensors"
has "$at/snapshots/$commit/vae/model.safetensors" out
mkdir tag
echo '{}' >tag/config.json
add me/pipe tag refs/pr/1 >tag-commit
code 0 jobctl fetch hf://me/pipe@refs/pr/1/config.json
[ "$(cat "$at/refs/refs/pr/1")" = "$(cat tag-commit)" ]

# A folder without weights, of which a training job cannot begin.
code 0 jobctl fetch hf://me/pipe/tokenizer
has "$at/snapshots/$second" out
code 2 jobctl fetch --part vae hf://me/pipe/tokenizer
has 'me/pipe lacks tokenizer for vae at revision main: this model cannot be opened' err
printf 'first line\n' >line
code 65 jobctl-train tokenize --tokenizer hf://me/pipe/tokenizer <line # a tokenizer.json of nothing
has "$at/snapshots/$second/tokenizer" err
code 64 jobctl-train inspect hf://me/none
has 'run `jobctl fetch hf://me/none` where there is network and this directory' err

# A repository with a .pth in a folder of its own.
mkdir -p sana/checkpoints
big 9000 >sana/checkpoints/Sana.pth
add me/sana sana >sana-commit
code 0 jobctl fetch hf://me/sana
has "snapshots/$(cat sana-commit)/checkpoints" out

# What is not there is told in one sentence.
code 2 jobctl fetch hf://me/none
has 'me/none at main is not on 127.0.0.1 (HTTP 404: not found): check owner, repository, revision and file' err
code 2 jobctl fetch hf://me/pipe@v9
code 2 jobctl fetch hf://me/pipe/model.pth
has 'me/pipe has no file or folder model.pth at revision main; it has README.md, ...' err
for name in hf://me hf://me/pipe@ hf://me/../x hf://me/pipe/../../x hf://me/pipe@../x hf:///x 'hf://me/pi pe' me/pipe; do
    code 2 jobctl fetch "$name"
    has 'the name of a model on a hub' err
done
code 2 jobctl fetch nofile.yaml
has 'nofile.yaml is neither a file nor the name of a model on a hub, such as hf://OWNER/REPO' err
faults '"gated":["me/pipe"]'
code 2 jobctl fetch hf://me/pipe
has "me/pipe: access is restricted (HTTP 403): accept its conditions at $HF_ENDPOINT/me/pipe as the user of the token" err
HF_ENDPOINT=ftp://x code 2 jobctl fetch hf://me/pipe
has 'HF_ENDPOINT is "ftp://x"; expected an address such as https://huggingface.co' err

# Without network: what is there is taken, what is not is told with the command that brings it.
stop_hub
code 0 jobctl fetch hf://me/pipe
has "commit ${second:0:12}" out
HF_HUB_OFFLINE=1 code 0 jobctl fetch hf://me/pipe
HF_HUB_OFFLINE=1 code 2 jobctl fetch hf://me/other
has 'HF_HUB_OFFLINE is set; missing in the cache' err
has 'run `jobctl fetch hf://me/other` where there is network and this directory' err
code 82 jobctl-fetch --tries 2 hf://me/other
has 'run `jobctl fetch hf://me/other`' err
has 'no answer from 127.0.0.1' err

# HF_HOME and HF_HUB_CACHE name another place, which other programs of Hugging Face share.
mv .cache/huggingface elsewhere
HF_HOME=$WORK/elsewhere HF_HUB_OFFLINE=1 code 0 jobctl fetch hf://me/pipe
HF_HUB_CACHE=$WORK/elsewhere/hub HF_HUB_OFFLINE=1 code 0 jobctl fetch hf://me/pipe
XDG_CACHE_HOME=$WORK HF_HUB_OFFLINE=1 code 2 jobctl fetch hf://me/pipe
has "$WORK/huggingface/hub" err
