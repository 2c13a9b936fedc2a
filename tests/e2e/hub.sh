# SPDX-License-Identifier: Apache-2.0
# hub.sh - a local hub for tests: . "$TOP/tests/e2e/hub.sh"; it ends with the test (hub_server.py)
. "$TOP/tests/e2e/expect.sh"
hub=$WORK/hub
mkdir "$hub"
no_token() { unset HF_TOKEN HF_TOKEN_PATH HUGGING_FACE_HUB_TOKEN; }
no_token
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_HOME XDG_CACHE_HOME
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost HF_HUB_DOWNLOAD_TIMEOUT=200
start_hub() {
    rm -f "$hub/ports"
    python3 -IS "$TOP/tests/e2e/hub_server.py" serve "$hub" &
    hub_pid=$!
    wait_for "the hub listens" test -e "$hub/ports"
    read -r hub_port store_port <"$hub/ports"
    export HF_ENDPOINT=http://127.0.0.1:$hub_port
}
stop_hub() { # and no word of the shell about it
    kill "$hub_pid" && { wait "$hub_pid" || :; } 2>/dev/null
}
start_hub
trap 'kill "$hub_pid" 2>/dev/null || :' EXIT

# add REPO FOLDER [REV]: a commit with these files, which becomes that of REV; prints it
add() { python3 -IS "$TOP/tests/e2e/hub_server.py" add "$hub" "$@"; }
# faults JSON-MEMBERS: what goes wrong from now on; lists in it begin anew
faults=0
faults() {
    faults=$((faults + 1))
    echo "{\"id\":$faults${1:+,$1}}" >"$hub/mode.new"
    mv "$hub/mode.new" "$hub/mode"
}
forget() { : >"$hub/log"; }
# asked AT TEXT: how many requests to `hub` or `store` have this text
asked() { grep "\"at\": \"$1\"" "$hub/log" | grep -c -- "$2" || :; }
cache() { echo "$WORK/.cache/huggingface/hub/models--$(sed 's|/|--|g' <<<"$1")"; }
