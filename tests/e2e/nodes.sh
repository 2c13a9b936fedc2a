# SPDX-License-Identifier: Apache-2.0
# nodes.sh - one job spec for all launchers: . "$TOP/tests/e2e/nodes.sh"
. "$TOP/tests/e2e/wait.sh"

# place NAME: a directory with the spec, a copy to the byte, and what it needs beside it
place() {
    mkdir "$WORK/$1"
    cp "$TOP/tests/e2e/nodes.yaml" "$WORK/$1/"
    ln -s "$TOP/templates/data" "$WORK/$1/data"
}
# losses NAME: of each step; bits NAME: of the weights and the optimizer's state at the end
losses() { read_json each step loss <"$WORK/$1/checkpoints/metrics.jsonl"; }
bits() { cat "$WORK/$1"/checkpoints/step-00000012/{model,optimizer}.safetensors | sha256sum; }
# same NAME NAME...: all have come to the same
same() {
    local first=$1 other
    shift
    [ "$(losses "$first" | wc -l)" = 12 ] || { echo "$first has lost losses"; losses "$first"; exit 1; }
    for other; do
        cmp <(losses "$first") <(losses "$other") || { echo "$other has other losses"; exit 1; }
        [ "$(bits "$first")" = "$(bits "$other")" ] || { echo "$other has other weights"; exit 1; }
    done
}
