# SPDX-License-Identifier: Apache-2.0
# examples.sh - the job files of docs/YOUR-SCRIPT.md, run unchanged: . "$TOP/tests/e2e/examples.sh"
. "$TOP/tests/e2e/expect.sh"

# example NAME: the lines from "# NAME.yaml" to the next empty one become $WORK/NAME.yaml
example() {
    awk -v head="    # $1.yaml" '$0 == head { on = 1 } on && !NF { exit } on { print substr($0, 5) }' \
        "$TOP/docs/YOUR-SCRIPT.md" >"$WORK/$1.yaml"
    [ -s "$WORK/$1.yaml" ] || { echo "docs/YOUR-SCRIPT.md has no block that begins with '# $1.yaml'"; exit 1; }
}
# script FOLDER NAME PAYLOAD: $WORK/FOLDER/NAME is that script, with its data beside it
script() {
    mkdir -p "$WORK/$1"
    cp "$TOP/tests/payload/$3" "$WORK/$1/$2"
    cp "$TOP/tests/payload/batches.py" "$WORK/$1"
}
# python_is PROGRAM: what `python` is in the shell that submits
python_is() { mkdir -p "$WORK/bin" && ln -sf "$(command -v "$1")" "$WORK/bin/python" && PATH="$WORK/bin:$PATH"; }
# submits NAME [OPTION...]: $job, with its checkpoints in $ckpt
submits() {
    job=$(jobctl submit -q "$WORK/$1.yaml" --set resources.gpus=0 "${@:2}")
    ckpt=$JOBCTL_HOME/jobs/$job/checkpoints
}
# told JOB CONDITION: of `o`, the job as `show` tells it
told() { jobctl show "$1" --json | read_json holds "(lambda o: $2)(o['job'])"; }
# in_save FOLDER JOB COMMAND...: the command, which stops the job while its script there is in the middle of a save
in_save() {
    touch "$WORK/$1/hold"
    wait_for "a save of $1" test -e "$WORK/$1/in_save"
    "${@:3}"
    wait_event "$2" kind=stop_asked >/dev/null
    rm "$WORK/$1/hold" "$WORK/$1/in_save"
}
# whole FILE: to its end
whole() { [ "$(tail -c 3 "$1")" = end ]; }
# cancels JOB: and it ends so
cancels() { jobctl cancel "$1" >/dev/null && code 3 jobctl wait "$1"; }
