# SPDX-License-Identifier: Apache-2.0
# What a job takes that says nothing about GPUs, on a machine with four (a stand-in for NVML): `jobctl run` and a member
# of a sweep one, a `run:` file one rank on each, and submit says so; the same without a GPU.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=abcd
say='echo "$WORLD_SIZE on $CUDA_VISIBLE_DEVICES"'

# takes WANTED [OPTION...]: ranks and number of GPUs of `jobctl run`
takes() {
    local want=$1
    shift
    code 0 jobctl run "$@" -- "$say"
    [ "$(sed -n 's/^\([0-9]\) on .*/\1/p' out) $(grep '^[0-9] on ' out | tr -d -c , | wc -c)" = "$want" ] ||
        { cat out err; exit 1; }
}
takes '1 0'
lacks note: err
has 'planned: 1 rank on GPU 0 (Fake A100), 1 CPU slot' out
takes '2 1' -g 2
takes '2 1' -n 2
takes '4 3' -g auto
takes '1 3' -g auto -n 1

echo "run: $say" >plain.yaml
code 0 jobctl submit plain.yaml --wait
has 'note: up to 4 copies of the command start, one rank per GPU; for one copy on one GPU set resources.gpus: 1' err
code 0 jobctl submit plain.yaml --wait --set resources.gpus=1
empty err
{ cat plain.yaml; echo 'sweep: {env.A: [1, 2]}'; } >sweep.yaml
code 0 jobctl submit sweep.yaml --wait
has 'note: each member takes one GPU per rank' err
jobctl logs 8_0 | grep '^1 on [^,]*$'
code 0 jobctl submit sweep.yaml --wait --set resources.gpus=auto
empty err
jobctl logs 11_1 | grep '^4 on '

export FAKE_GPUS=
stop_daemon
takes '1 0'
has '1 on ' out
code 0 jobctl submit sweep.yaml plain.yaml --wait
empty err
