# SPDX-License-Identifier: Apache-2.0
# A vocabulary of 256,000 pieces: 20,000 texts get the ids that the SentencePiece library gives them, from
# tokenizer.model and from tokenizer.json, and opening either is quick against Python's reading of the same file.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
python=$(for p in python3 /usr/bin/python3; do "$p" -c 'import sentencepiece' 2>/dev/null && { echo "$p"; break; }; done || :)
[ -n "$python" ] || { echo "no Python with sentencepiece here: install python3-sentencepiece"; exit 77; }

seed=${SEED:-$RANDOM}
echo "seed $seed"
"$python" "$TOP/tests/soak/tokenizer_model.py" . "$seed" 256000 20000
for file in tokenizer.json tokenizer.model; do
    jobctl-train tokenize --tokenizer "$file" <texts >"ids.$file"
done
cmp ids.tokenizer.json ids.tokenizer.model
"$python" - <<'EOF'
import sentencepiece
known = sentencepiece.SentencePieceProcessor(model_file="tokenizer.model")
apart = 0
for text, ours in zip(open("texts", "rb"), open("ids.tokenizer.json")):
    theirs = known.encode(text[:-1])
    if theirs != [int(i) for i in ours.split()]:
        apart += 1
        print(text, theirs, ours) if apart < 4 else None
assert apart == 0, "%d texts have other ids" % apart
EOF
