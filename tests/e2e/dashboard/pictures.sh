# SPDX-License-Identifier: Apache-2.0
# The main pages in light, in dark and on a phone, compared loosely with how they looked when somebody looked at them:
# size, colours and the distribution of light, so that fonts do not matter. UPDATE=1 keeps the pictures of today. That the
# comparison sees a page without its styles, a page of the other theme and a shifted column is tested as well.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/browser.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
for i in 0 1 2 3 4 5 6 7; do
    printf 'gpu GPU-%s 00000000:0%s:00.0 81920 8.0 NVIDIA A100-SXM4-80GB\nset %s busy %s\nset %s memory 9\nset %s celsius 6%s\n' \
        $i $i $i $((90 - 8 * i)) $i $i $i
done >gpus
printf 'switch 12\np2p * * 0\n' >>gpus
cat >fails.yaml <<'YAML'
name: fails
run: |
  echo "step 30/100 loss 0.5"; echo "ValueError: a tensor of another shape" >&2; exit 7
resources: {gpus: 0}
retry: {max: 0}
YAML
printf 'name: ends\nrun: echo "step 10/10 loss 0.25"\nresources: {gpus: 0}\n' >ends.yaml
printf 'name: waits\nrun: "true"\nresources: {gpus: 0}\n' >waits.yaml
code 0 jobctl submit -q --wait ends.yaml
code 1 jobctl submit -q --wait fails.yaml
code 0 jobctl submit -q --hold waits.yaml
gpus() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/nodes | read_json holds "len(o['nodes'][0]['gpus']) == 8"; }
wait_for "the GPUs" gpus
code 0 jobctl dashboard
look dashboard_pictures.py "$JOBCTL_HOME/dashboard.html" "$TOP/tests/e2e/dashboard_pictures.json"
