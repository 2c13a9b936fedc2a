# SPDX-License-Identifier: Apache-2.0
# The page in a frame of another site, as in a cell of a notebook: refused until the user names that site, and then with
# a link of its own, whose session has no cookie. Asked by curl, then shown by Chromium in pages of two other ports.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir site
status() { curl -sS -o body.txt -D headers.txt -w '%{http_code}\n' --path-as-is "$@"; }
is() { local want=$1 got; shift; got=$(status "$@"); [ "$got" = "$want" ] || { echo "$*: $got, not $want"; cat body.txt; exit 1; }; }
token() { jobctl dashboard "$@" --json | field link | sed 's/.*token=//'; }
cat >job.yaml <<'YAML'
name: framed
run: exec sleep 600
resources: {gpus: 0}
YAML
code 0 jobctl submit -q job.yaml

# Two other origins: a server of files, at 127.0.0.1 and at localhost.
web=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 -m http.server --bind 127.0.0.1 --directory site "$web" >web.log 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
answers() { curl -sS -o /dev/null "http://127.0.0.1:$web/"; }
wait_for "the other site" answers

# Only sites that are one: nothing that would end the header.
for site in evil.example 'http://evil.example' "https://evil.example; script-src *" 'https://a b' 'https://a/b' 'https://*' 'null' \
            'https://-a' 'http://localhost:' 'http://localhost:8888/' 'http://localhost.evil.example'; do
    code 2 jobctl dashboard --frame "$site"
    has 'frame: expected colab, an origin such as https://hub.example.org' err
done
code 2 jobctl dashboard --frame ''
code 2 jobctl dashboard --frame colab --open

# Without --frame no site may.
code 0 jobctl dashboard
link=$(grep -o 'http://127.0.0.1:[0-9]*/#token=[0-9a-f]*' "$JOBCTL_HOME/dashboard.html" | head -n 1)
url=${link%/#*}
is 404 "$url/frame"
has 'jobctl dashboard --frame SITE' body.txt
grep -i "^Content-Security-Policy: .*frame-ancestors 'none'" headers.txt

# A token for a tab gives no session of a frame, and is used up by the attempt; nor the other way round.
session() { status -H 'Content-Type: application/json' -d "{\"token\":\"$1\"}" "${@:2}" "$url/v1/session"; }
[ "$(session "${link##*=}" -H 'X-Jobctl-Frame: 1')" = 401 ]
[ "$(session "${link##*=}")" = 401 ]
[ "$(session "$(token --frame "http://localhost:$web")")" = 401 ]
! grep -i '^Set-Cookie' headers.txt || exit 1
[ "$(session "$(token --frame "http://localhost:$web")" -H 'X-Jobctl-Frame: 1')" = 200 ]
! grep -i '^Set-Cookie' headers.txt || exit 1
key=$(field key <body.txt)
is 200 -H "X-Jobctl-Key: $key" -H 'X-Jobctl-Frame: 1' "$url/v1/jobs"
is 401 -H "X-Jobctl-Key: $key" "$url/v1/jobs"
is 401 -H "X-Jobctl-Key: ${key%?}0g" -H 'X-Jobctl-Frame: 1' "$url/v1/jobs"
is 401 -H 'X-Jobctl-Key:' -H 'X-Jobctl-Frame: 1' "$url/v1/jobs"
is 403 -H "X-Jobctl-Key: $key" -H 'X-Jobctl-Frame: 1' -H "Origin: http://localhost:$web" "$url/v1/jobs"

# That page has the named site alone; the page of tabs is as before.
is 200 "$url/frame"
grep -i "^Content-Security-Policy: .*script-src 'self';.*frame-ancestors http://localhost:$web.\$" headers.txt
[ "$(grep -ci '^Content-Security-Policy' headers.txt)" = 1 ]
! grep -i '^X-Frame-Options' headers.txt || exit 1
is 200 "$url/"
grep -i "^Content-Security-Policy: .*frame-ancestors 'none'" headers.txt
grep -i '^X-Frame-Options: DENY' headers.txt

# The proxy of Colab may name itself while Colab is the site, for sessions of frames; other names are refused.
proxy=8000-m-s-1a2b-c.us-west1-0.prod.colab.dev
is 421 -H "Host: $proxy" "$url/frame"
key=$(token --frame colab)
[ "$(session "$key" -H "Host: $proxy")" = 403 ]
[ "$(session "$key" -H "Host: $proxy" -H "Origin: https://$proxy" -H 'X-Jobctl-Frame: 1')" = 200 ]
key=$(field key <body.txt)
is 200 -H "Host: $proxy" -H "Origin: https://$proxy" -H "X-Jobctl-Key: $key" -H 'X-Jobctl-Frame: 1' "$url/v1/jobs"
is 200 -H "Host: $proxy" "$url/frame"
grep -i '^Content-Security-Policy: .*frame-ancestors https://colab.research.google.com https://\*.googleusercontent.com.$' headers.txt
for host in prod.colab.dev .prod.colab.dev.evil.example evil.example "evil.example:80/x.prod.colab.dev" "a b.prod.colab.dev"; do
    [ "$(status -H "Host: $host" "$url/frame")" != 200 ]
done
is 403 -H "Origin: http://$proxy" "$url/frame"
is 403 -H 'Origin: https://evil.example' "$url/frame"

# In Chromium: site/index.html shows the frame of the link in its address.
cat >site/index.html <<'HTML'
<!doctype html><title>notebook</title><p>a cell of a notebook</p><iframe id="cell" width="1200" height="700"></iframe>
<script>document.getElementById("cell").src = decodeURIComponent(location.search.slice(1)) + location.hash</script>
HTML
code 0 jobctl dashboard
cp "$JOBCTL_HOME/dashboard.html" tab.html
jobctl dashboard --frame "http://localhost:$web" >framed
. "$TOP/tests/e2e/browser.sh"
look dashboard_frame.py tab.html "$(cat framed)" "$web"
code 0 jobctl cancel 1
jobctl wait 1 --timeout 60 || true
