# SPDX-License-Identifier: Apache-2.0
# Data is encoded at real size: random weights of dc-ae-f32c32-sana and of Gemma-2 2B, four pictures of 512 pixels, or
# PICTURES of them. Less than 7 GB of memory, mapped weights included, which are gone before training; killed in between,
# the same bytes (with fewer than three pictures there is no time between).
. "$TOP/tests/e2e/wait.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
[ "$(df --output=avail -B1000000000 . | tail -1)" -gt 20 ] || { echo "less than 20 GB free in $WORK"; exit 77; }
mkdir -p pipe/vae pipe/text_encoder pipe/tokenizer
echo '{}' >pipe/model_index.json
python3 "$TOP/tests/soak/dcae_weights.py" pipe/vae/diffusion_pytorch_model.safetensors
python3 "$TOP/tests/e2e/gemma_weights.py" pipe/text_encoder
cp "$TOP/tests/golden/tokenizer/tokenizer.json" pipe/tokenizer/
printf 'Given a user prompt, generate an "Enhanced prompt" that provides detailed visual descriptions suitable for image \
generation. Evaluate the level of detail in the user prompt:\n- If it is simple, add specifics.\nUser Prompt: ' >chi
take_pictures pics "${PICTURES:-4}"
spec() { # NAME
    encode_spec "$1.json" "$WORK/pics" "\"instruction\":\"$WORK/chi\",\"cache\":\"$WORK/$1.cache\""
    sed -i 's/"resolution":32/"resolution":512/; s/"text_rows":16/"text_rows":300/; s/"cache_shard":3/"cache_shard":1/' \
        "$1.json"
}
files() { [ "$(shards "$1.cache" 2>/dev/null | wc -l)" -ge "$2" ]; }

spec whole
jobctl-train plan --spec whole.json | grep -A 2 '^encode'
python3 - <<'PY'
import resource, subprocess, time
begin = time.time()
subprocess.run(['jobctl-train', 'train', '--spec', 'whole.json'], check=True)
use = resource.getrusage(resource.RUSAGE_CHILDREN)
print('wall %.1f s, processor %.1f s, peak memory %.2f GB, mapped weights included' %
      (time.time() - begin, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024e-9))
assert use.ru_maxrss * 1024 < 7e9
PY
jobctl-train plan --spec whole.json | grep -A 2 '^encode'
cat whole.cache/rate.json && echo
[ "${PICTURES:-4}" -ge 3 ] || exit 0
spec killed
jobctl-train train --spec killed.json >killed.log 2>&1 &
WAIT_S=1200 wait_for "a file of latents" files killed 2
kill -9 $!
wait $! || true
jobctl-train train --spec killed.json >killed.log 2>&1
diff <(shards whole.cache) <(shards killed.cache)
