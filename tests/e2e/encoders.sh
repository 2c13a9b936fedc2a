# SPDX-License-Identifier: Apache-2.0
# encoders.sh - tiny encoders made here, and specs that train on their output; sourced by tests of the cache

# make_pipe DIR: a diffusers folder with the autoencoder of tests/golden/vae (4 channels at a quarter of the size), a
# random Gemma-2 of 32 channels, and the tokenizer of tests/golden
make_pipe() {
    mkdir -p "$1/vae" "$1/text_encoder" "$1/tokenizer"
    echo '{}' >"$1/model_index.json"
    cp "$TOP/tests/golden/vae/small-pair.diffusers.safetensors" "$1/vae/diffusion_pytorch_model.safetensors"
    echo '{"scaling_factor": 0.41407}' >"$1/vae/config.json"
    python3 "$TOP/tests/e2e/gemma_weights.py" "$1/text_encoder" tiny
    cp "$TOP/tests/golden/tokenizer/tokenizer.json" "$1/tokenizer/"
}

# encode_spec FILE DATA [MEMBERS OF train.data]: a tiny model on pictures of 32 pixels
encode_spec() {
    cat >"$1" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"batch":{"global":4},"steps":${STEPS:-2},
 "data":{"path":"$2","encoders":"sana","vae":"$PWD/pipe","text_encoder":"$PWD/pipe","resolution":32,"text_rows":16,
  "cache_shard":3${3:+,$3}}},
 "checkpoint":{"every":{"steps":100},"dir":"$1.ckpt"}}
JSON
}

# take_pictures DIR N: the first N pictures of the demo, with captions
take_pictures() {
    mkdir -p "$1"
    local picture
    for picture in $(find "$TOP/templates/data/tango-icons" -name '*.png' | sort | head -n "$2"); do
        cp "$picture" "${picture%.png}.txt" "$1/"
    done
}

# shards CACHE: digests and names of all shards
shards() { (cd "$1" && find . -path './*-*/*.safetensors' | sort | xargs md5sum); }
