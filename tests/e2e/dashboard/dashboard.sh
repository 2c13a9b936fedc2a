# SPDX-License-Identifier: Apache-2.0
# The page in a browser, requested by curl: no port until somebody asks for a link, which works once; what a request
# needs (the cookie and the key), and what is refused: other hosts and origins, paths, methods, many wrong links.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >job.yaml <<'YAML'
name: page
run: |
  echo "<img src=x onerror=alert(2)>"; exec sleep 600
resources: {gpus: 0}
YAML
listeners() { grep -c 'dashboard: http' "$JOBCTL_HOME/daemon.log"; }
# The addresses at which the daemon listens by TCP, as /proc/net/tcp has them.
listens() {
    local pid
    read -r _ pid <"$JOBCTL_HOME/daemon.lock"
    find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >inodes
    awk 'NR == FNR { own[$1]; next } $4 == "0A" && $10 in own { print $2 }' inodes /proc/net/tcp /proc/net/tcp6
}
# status HEADERS-AND-ARGUMENTS: prints the status; the answer is in body.txt, its headers in headers.txt
status() { curl -sS -o body.txt -D headers.txt -w '%{http_code}\n' --path-as-is "$@"; }
is() { local want=$1 got; shift; got=$(status "$@"); [ "$got" = "$want" ] || { echo "$*: $got, not $want"; cat body.txt; exit 1; }; }

code 0 jobctl submit -q job.yaml
# The daemon has no port until somebody asks.
[ "$(listeners)" = 0 ]
[ -z "$(listens)" ]

code 0 jobctl dashboard
file=$JOBCTL_HOME/dashboard.html
has "$file" out
[ "$(stat -c %a "$file")" = 600 ]
link=$(grep -o 'http://127.0.0.1:[0-9]*/#token=[0-9a-f]*' "$file" | head -n 1)
token=${link##*=}
port=${link#http://127.0.0.1:}
port=${port%%/*}
url=http://127.0.0.1:$port
[ "${#token}" = 64 ]
[ "$(listeners)" = 1 ]
[ "$(listens)" = "$(printf '0100007F:%04X' "$port")" ]

# The page itself is for everybody here; nothing of it may come from elsewhere.
is 200 "$url/"
grep -i '^Content-Security-Policy: .*script-src .self.;.*frame-ancestors .none.' headers.txt
! grep -i 'unsafe' headers.txt || exit 1
grep -i '^X-Frame-Options: DENY' headers.txt
grep -i '^X-Content-Type-Options: nosniff' headers.txt
! grep -i 'Access-Control' headers.txt || exit 1
! grep -E '<script[^>]*>[^<]|style=| on[a-z]+=|https?:' body.txt || exit 1
for asset in $(grep -o '/assets/[a-z.]*' body.txt); do is 200 "$url$asset"; done
for asset in "$TOP"/controller/dashboard/assets/*; do
    is 200 "$url/assets/${asset##*/}"
    cmp body.txt "$asset"
done
is 200 "$url/assets/main.js"
grep -i '^Content-Type: text/javascript' headers.txt

# No path leads to other files.
for path in /assets/../../../etc/passwd /assets/..%2f..%2fetc%2fpasswd /assets/%2e%2e/dashboard.html /assets// /assets/ \
            /assets/dashboard.html /../etc/passwd //etc/passwd /assets/style.css/; do
    is 404 "$url$path"
done

# Without a session nothing is said of jobs, and nothing is done.
for path in /v1/jobs /v1/jobs/1 /v1/jobs/1/logs /v1/jobs/1/why /v1/jobs/1/events /v1/version /v1/nodes; do is 401 "$url$path"; done
is 401 -d '{}' "$url/v1/jobs/1/cancel"
grep -i '^Content-Security-Policy:' headers.txt

# A name that somebody's DNS leads here, another port, another site.
for host in evil.example evil.example:$port 127.0.0.1 127.0.0.1:1 "localhost.evil.example:$port" 0.0.0.0:$port; do
    is 421 -H "Host: $host" "$url/"
    is 421 -H "Host: $host" -d "{\"token\":\"$token\"}" "$url/v1/session"
done
is 200 -H "Host: localhost:$port" "$url/"
is 403 -H 'Origin: http://evil.example' -d "{\"token\":\"$token\"}" "$url/v1/session"
is 403 -H "Origin: null" "$url/"

# A link works once.
is 401 -d '{"token":"0000000000000000000000000000000000000000000000000000000000000000"}' "$url/v1/session"
is 401 -d '{"token":""}' "$url/v1/session"
is 400 -d '{}' "$url/v1/session"
is 200 -d "{\"token\":\"$token\"}" "$url/v1/session"
grep -i "^Set-Cookie: jobctl_$port=[0-9a-f]*; HttpOnly; SameSite=Strict; Path=/v1/" headers.txt
cookie=$(sed -n "s/^Set-Cookie: \(jobctl_$port=[0-9a-f]*\);.*/\1/Ip" headers.txt)
key=$(python3 -c 'import json; print(json.load(open("body.txt"))["key"])')
is 401 -d "{\"token\":\"$token\"}" "$url/v1/session"
has 'this link was used already' body.txt

# A session is the cookie and the key.
is 200 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs"
python3 -c 'import json; assert [j["name"] for j in json.load(open("body.txt"))["jobs"]] == ["page"]'
grep -i '^Cache-Control: no-store' headers.txt
is 401 -b "$cookie" "$url/v1/jobs"
is 401 -H "X-Jobctl-Key: $key" "$url/v1/jobs"
is 401 -b "$cookie" -H "X-Jobctl-Key: ${key}0" "$url/v1/jobs"
is 401 -b "jobctl_1=${cookie#*=}" -H "X-Jobctl-Key: $key" "$url/v1/jobs"
is 401 -b "$cookie" -d '{}' "$url/v1/jobs/1/cancel"
is 403 -b "$cookie" -H "X-Jobctl-Key: $key" -H 'Origin: http://127.0.0.1:1' -d '{}' "$url/v1/jobs/1/cancel"
[ "$(jobctl status --json 1 | python3 -c 'import json,sys; print(json.load(sys.stdin)["jobs"][0]["state"])')" != done ]
for path in '' /why /events /logs '/metrics?name=loss'; do is 200 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs/1$path"; done

# It acts on jobs and submits a text; it removes nothing, takes no secrets, and gives nobody a link.
is 400 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs/1/cancel"
is 400 -b "$cookie" -H "X-Jobctl-Key: $key" -d '{"spec":"run: true","cwd":"/tmp","secrets":{"A":"b"}}' "$url/v1/jobs"
is 400 -b "$cookie" -H "X-Jobctl-Key: $key" -d '{"spec":"name: a\nrun: 1\nnonsense: 2\n","cwd":"/tmp","file":"spec.yaml","dry_run":true}' "$url/v1/jobs"
python3 -c 'import json; assert json.load(open("body.txt"))["errors"][0]["line"] == 3'
is 200 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs/1/spec?any=1"
python3 -c 'import json; o = json.load(open("body.txt")); assert "name: page" in o["yaml"] and o["base"]'
is 401 -H "X-Jobctl-Key: $key" "$url/v1/live"
is 401 -H "X-Jobctl-Key: $key" "$url/v1/jobs/1/live"
is 404 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs/1/sample?step=3"
for path in jobs/1/remove jobs/1/edit adopt dashboard shutdown notify; do
    is 404 -b "$cookie" -H "X-Jobctl-Key: $key" -d '{}' "$url/v1/$path"
done
head -c 70000 /dev/zero | tr '\0' 'a' >large.txt
is 413 -b "$cookie" -H "X-Jobctl-Key: $key" --data-binary @large.txt "$url/v1/jobs/1/cancel"
is 200 -b "$cookie" -H "X-Jobctl-Key: $key" -d '{"reason":"from the page"}' "$url/v1/jobs/1/cancel"
code 3 jobctl wait 1

# One port, whoever asks again; another --port is refused. Wrong links are counted, sessions stay.
code 0 jobctl dashboard --print
[ "$(grep -c "^http://127.0.0.1:$port/#token=[0-9a-f]*$" out)" = 1 ]
second=$(sed 's/.*=//' out)
other=$((port == 65535 ? 65534 : port + 1))
code 3 jobctl dashboard --port $other
has "listens on port $port already" err
code 2 jobctl dashboard --port 70000
[ "$(listeners)" = 1 ]
for i in 1 2 3 4 5 6 7 8 9 10; do status -d '{"token":"wrong"}' "$url/v1/session" >>wrong.txt; done
is 429 -d "{\"token\":\"$second\"}" "$url/v1/session"
is 200 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs"

# The link is an argument of no program: the browser gets the file.
mkdir bin
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >"%s/opened"\n' "$WORK" >bin/xdg-open
chmod +x bin/xdg-open
code 0 env PATH="$WORK/bin:$PATH" jobctl dashboard --open
[ "$(cat opened)" = "$file" ]
printf '#!/bin/sh\nexit 3\n' >bin/xdg-open
code 4 env PATH="$WORK/bin:$PATH" jobctl dashboard --open
has "open the file $file yourself" err

# Sessions and links end with the daemon, and so does the port.
code 0 jobctl daemon stop
! curl -sS "$url/" 2>/dev/null || exit 1
code 0 jobctl dashboard --port $port
is 401 -b "$cookie" -H "X-Jobctl-Key: $key" "$url/v1/jobs"
is 401 -d "{\"token\":\"$second\"}" "$url/v1/session"
