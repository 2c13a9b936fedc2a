# SPDX-License-Identifier: Apache-2.0
# A picture through an autoencoder and back, with weights from a file and from a diffusers folder: the same latents
# under both namings and file formats, and invalid input is refused with one sentence.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

vae() { "$BIN/jobctl-train" vae "$@"; }
golden=$TOP/tests/golden/vae
picture=$(find "$TOP/templates/data" -name '*.png' | sort | head -n 1)
mkdir -p pipe/vae
cp "$golden/small-pair.diffusers.safetensors" pipe/vae/diffusion_pytorch_model.safetensors
echo '{}' >pipe/model_index.json
echo '{"scaling_factor": 0.41407}' >pipe/vae/config.json

vae encode --weights "$golden/small-pair.safetensors" --in "$picture" --out a.npy --size 48 >said
grep -q 'a.npy: 4 x 12 x 12, of 48 x 48 pixels' said || fail "encode said: $(cat said)"
vae encode --weights pipe --in "$picture" --out b.npy --size 48 >/dev/null
cmp a.npy b.npy || fail "the weights of both namings give other latents"
vae encode --weights pipe --in "$picture" --out c.safetensors --size 48 >/dev/null
echo '{"scaling_factor": 1}' >pipe/vae/config.json
vae encode --weights pipe --in "$picture" --out d.npy --size 48 >/dev/null
! cmp -s a.npy d.npy || fail "scaling_factor of config.json had no effect"
echo '{"scaling_factor": 0.41407}' >pipe/vae/config.json

vae decode --weights pipe --in b.npy --out b.png >said
grep -q 'b.png: 48 x 48 pixels' said || fail "decode said: $(cat said)"
vae decode --weights pipe --in c.safetensors --out c.png >/dev/null
cmp b.png c.png || fail "a latent of .npy and of .safetensors give other pictures"

mkdir kl
cp "$golden/tiny-kl.safetensors" kl/
! vae encode --weights kl --in "$picture" --out k.npy 2>said || fail "8 channels in 32 groups"
grep -qF '8 channels of the autoencoder are not a multiple of its 32 groups' said || fail "said: $(cat said)"
echo '{"norm_num_groups": 4}' >kl/config.json
# KL: the mean is the latent, at an eighth of the size, to a multiple of 8.
vae encode --weights kl --in "$picture" --out k.npy --size 63 >said
grep -q 'k.npy: 4 x 7 x 7, of 56 x 56 pixels' said || fail "encode of KL said: $(cat said)"
vae decode --weights kl --in k.npy --out k.png >/dev/null

# refuse CODE WORDS ARGUMENT...: one sentence, and no file.
refuse() {
    local code=$1 words=$2 got=0
    shift 2
    vae "$@" >said 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "vae $*: exit $got, not $code: $(cat said)"
    [ "$(wc -l <said)" = 1 ] || fail "vae $*: not one sentence: $(cat said)"
    grep -qF -- "$words" said || fail "vae $*: does not say '$words': $(cat said)"
    [ ! -e new.npy ] && [ ! -e new.png ] || fail "vae $*: left a file"
}
refuse 64 'encode, decode or bench' compress
refuse 65 'neither a DC-AE' encode --weights "$TOP/tests/golden/sana/tiny-base.safetensors" --in "$picture" --out new.npy
refuse 65 '3 x 3 pixels are too few' encode --weights pipe --in "$picture" --out new.npy --size 3
refuse 64 '--size x' encode --weights pipe --in "$picture" --out new.npy --size x
refuse 64 'a .npy or .safetensors file' encode --weights pipe --in "$picture" --out new.jpg
head -c 200 b.npy >cut.npy
refuse 65 'its shape needs' decode --weights pipe --in cut.npy --out new.png
refuse 64 '--model vqgan' bench --model vqgan
refuse 64 '--half both' bench --half both
