# SPDX-License-Identifier: Apache-2.0
# jobctl show --report FILE.html: one file with the whole run and the dashboard's page of it, without a reference to anything
# else, and without secrets; hostile names and log lines stay text. Chromium shows it from the file, without a daemon.
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
  echo "</script><script>window.hacked = 1</script><img src=x onerror=window.hacked=2>"
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
# What the page shows is in one element, and the rest of the file names nothing outside of it.
cat >read.py <<'PY'
import html.parser, json, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.parts, self.at = [], {}, None
    def handle_starttag(self, tag, attrs):
        self.at = dict(attrs).get("id") if tag == "script" else None
        self.links += [(n, v) for n, v in attrs if n in ("src", "href", "action", "data", "srcset") or n.startswith("on")]
    def handle_data(self, data):
        if self.at:
            self.parts[self.at] = self.parts.get(self.at, "") + data

page = Page()
page.feed(open(sys.argv[1]).read())
assert not page.links, page.links
assert "job.js" in json.loads(page.parts["modules"])
saved = json.loads(page.parts["saved"])
assert all(word in json.dumps(saved) for word in sys.argv[2:]), sys.argv
print(len(open(sys.argv[1]).read()), len(saved["samples"]), sum(len(c) > 1 for c in saved["curves"].values()), len(saved["all"]["checkpoints"]))
PY
python3 -IS read.py run.html "the run is complete" "reported" "checkpoint of step 60" "productive" "optimizer_ms" "preset" >counts
grep -qF "default-src 'none'; script-src 'unsafe-inline' blob:" run.html
read -r size pictures curves saved <counts
[ "$pictures" = 2 ] && [ "$curves" -ge 10 ] && [ "$saved" = 3 ] && [ "$size" -lt 2000000 ]
python3 -IS read.py fails.html "exited with code 7" "<script>window.hacked" "[redacted]"
! grep -q '<script>window.hacked' fails.html || exit 1
for secret in quite-a-secret abcdef0123456789 hush-hush; do
    ! grep -q "$secret" fails.html || { echo "$secret is in the page"; exit 1; }
done
code 3 jobctl show 77 --report no.html
[ ! -e no.html ]
code 2 jobctl show 1 --report run.pdf
has "expected a name that ends in .html for a page" err
code 3 jobctl show 1 --report /nowhere/no.html

# Without the daemon: the page is whole.
stop_daemon
. "$TOP/tests/e2e/browser.sh"
look dashboard_report.py "$PWD/run.html" "$PWD/fails.html"
