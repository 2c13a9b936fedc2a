# SPDX-License-Identifier: Apache-2.0
# jobctl show --report FILE.html: one file with the whole run, without script, without a reference to anything else, and without
# secrets; hostile names and log lines stay text.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >train.yaml <<YAML
name: reported
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 60
  sample: {before: true, after: true, count: 4}
resources: {gpus: 0, cpus: 1}
checkpoint: {every: 20 steps}
YAML
cat >fails.yaml <<'YAML'
name: fails
run: |
  echo "step 1/3 loss 0.5"
  echo "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
  echo "the value is $WORDS_OF_MINE, and the other one is api_key=abcdef0123456789abcdef"
  exit 7
resources: {gpus: 0}
retry: {max: 0}
secrets: [WORDS_OF_MINE]
env: {SERVICE_TOKEN: hush-hush-hush-1}
YAML
export WORDS_OF_MINE=quite-a-secret-text
code 0 jobctl submit -q --wait train.yaml
code 1 jobctl submit -q --wait fails.yaml
code 0 jobctl show 1 --report run.html
has 'run.html: 1 file. Values of' out
code 0 jobctl show fails --report -
cp out fails.html
[ "$(stat -c %a run.html)" = 600 ]
cat >read.py <<'PY'
import html.parser, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.links = [], "", []
    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [(n, v) for n, v in attrs if n in ("src", "href", "action", "data", "xlink:href", "srcset") or n.startswith("on")]
    def handle_data(self, data):
        self.text += data

page = Page()
raw = open(sys.argv[1]).read()
page.feed(raw)
assert not {"script", "link", "iframe", "object", "embed", "form"} & set(page.tags), set(page.tags)
assert all(n == "src" and v.startswith("data:image/png;base64,") for n, v in page.links), page.links
assert "http:" not in raw.replace("http://www.w3.org", "") and "https:" not in raw and "url(" not in raw
for word in sys.argv[2:]:
    assert word in page.text, word
print(len(raw), len(page.links), raw.count('class="curve"'), raw.count('class="saved"'))
PY
python3 -IS read.py run.html "the run is complete" "reported" "checkpoint of step 60" "Where the time went" "samples/s" "model: " "phases, ms" "optimizer" >counts
[ "$(grep -o '<path class="phase[0-4]" d="M[0-9.]* [0-9.]*L' run.html | wc -l)" = 5 ]
! grep -q 'phases, ms' fails.html || exit 1
read -r size pictures curves saved <counts
[ "$pictures" = 2 ] && [ "$curves" -ge 4 ] && [ "$saved" = 3 ] && [ "$size" -lt 2000000 ]
python3 -IS read.py fails.html "exited with code 7" "<script>alert(1)</script>" "[redacted]"
for secret in quite-a-secret abcdef0123456789 hush-hush; do
    ! grep -q "$secret" fails.html || { echo "$secret is in the page"; exit 1; }
done
code 3 jobctl show 77 --report no.html
[ ! -e no.html ]
code 2 jobctl show 1 --report run.pdf
has "expected a name that ends in .html for a page" err
code 3 jobctl show 1 --report /nowhere/no.html
