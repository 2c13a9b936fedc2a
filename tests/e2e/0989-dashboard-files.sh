# SPDX-License-Identifier: Apache-2.0
# The files of the page: all together are small, vendored ones are those of their release, none names another host,
# every file that one names is there, and every text has a key in the table.
. "$TOP/tests/e2e/expect.sh"
cd "$TOP/controller/dashboard"
sed -n 's/^| `\(.*\)` | `\([0-9a-f]*\)` |$/\2  uplot\/\1/p' uplot/README.md | sha256sum -c --quiet
[ "$(grep -c sha256 uplot/README.md)" = 1 ] && [ "$(ls uplot | wc -l)" = 4 ]

sed -n 's/^| `\(.*\)` | `\([0-9a-f]*\)` |$/\2  \1/p' "$TOP/tests/axe/README.md" | (cd "$TOP/tests/axe" && sha256sum -c --quiet)

# What a browser loads, packed file by file, is below 200 KB.
size=0
for file in assets/* uplot/uPlot.esm.js uplot/uPlot.min.css; do size=$((size + $(gzip -9c "$file" | wc -c))); done
echo "the page: $size bytes gzipped"
[ $size -lt 200000 ]

! grep -nE 'https?://' assets/* | grep -v 'www.w3.org/2000/svg' || exit 1
# No style attribute and no inline script; text enters the page as text only.
! grep -nE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setAttribute\("style"|<[^>]* style=' assets/* || exit 1

python3 - <<'PY'
import pathlib, re

assets = {p.name: p.read_text() for p in pathlib.Path("assets").iterdir()}
table = pathlib.Path("assets.c").read_text()
served = dict(re.findall(r'\{ "([a-z.]+)", \w+|\{ "([a-z.]+)"', table) and [(n, 1) for n in re.findall(r'\{ "([a-z.]+)",', table)])
missing = set(assets) - set(served)
assert not missing, f"not in assets.c: {missing}"
for name, text in assets.items():
    for other in re.findall(r'(?:from|import\() ?"\./([a-z.]+)"', text) + re.findall(r'="/assets/([a-z.]+)"', text):
        assert other in served, f"{name} names {other}, which is not served"
    for other in re.findall(r'import \{([^}]*)\} from "\./([a-z]+\.js)"', text):
        for word in filter(None, (w.strip() for w in other[0].split(","))):
            assert re.search(rf"export (async )?(function|const|class) {word}\b", assets[other[1]]), f"{name}: {word} is not in {other[1]}"
keys = set(re.findall(r"\b(\w+): \"", assets["texts.js"]))
for name, text in assets.items():
    for key in re.findall(r'\btext\("(\w+)"', text) + re.findall(r'\b(?:panel|figure|button|column)\("(\w+)"', text):
        assert key in keys, f"{name}: text {key} is not in texts.js"
used = "".join(t for n, t in assets.items() if n != "texts.js")
prefixes = set(re.findall(r"text\(`(\w+)_\$\{", used))
words = set(re.findall(r"\w+", used))
unused = [k for k in keys if k not in words and k.split("_")[0] not in prefixes and not k.endswith("Hint")]
assert not unused, f"no file uses {unused}"
PY
