# SPDX-License-Identifier: Apache-2.0
# Metrics: promtool and Prometheus' own Python library read both formats, a real Prometheus scrapes them by TCP, and the
# numbers are those of the jobs. The TCP port serves nothing else; a port in use does not stop the daemon.
. "$TOP/tests/e2e/expect.sh"
command -v promtool >/dev/null || { echo "prometheus is not installed"; exit 77; }
python=/usr/bin/python3     # that of the packages
$python -c 'import prometheus_client' || { echo "python3-prometheus-client is not installed"; exit 77; }
cd "$WORK"
export XDG_CONFIG_HOME=$WORK/config
mkdir -p config/jobctl
config=config/jobctl/config.yaml
port_of_log() { sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' "$JOBCTL_HOME/daemon.log" | tail -n 1 | grep .; }
page() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" "$@" http://jobctl/metrics; }
cat >counted.yaml <<'YAML'
name: counted
run: |
  sh -c 'last=5; [ -e "$0" ] || last=3
         for i in $(seq $last); do echo "step $i/100 loss 0.$i"; sleep 0.2; done
         [ -e "$0" ] || { touch "$0"; exit 3; }; exec sleep 600' "$WORK/once"
resources: {gpus: 0}
env: {WORK: PLACE}
retry: {backoff: 10ms..20ms}
YAML
sed -i "s|PLACE|$WORK|" counted.yaml

# Wrong settings are named.
printf 'metrics: {listen: "localhost:9"}\n' >$config
code 2 jobctl nodes add @x
has 'config.yaml:1:19: metrics.listen: "localhost:9" is not an address and a port, such as 127.0.0.1:9473' err
printf 'metrics: {port: 9}\n' >$config
code 2 jobctl nodes add @x
has 'metrics: expected one key, such as {listen: "127.0.0.1:9473"}' err

printf 'metrics: {listen: "127.0.0.1:0"}\n' >$config
code 0 jobctl submit -q counted.yaml
code 0 jobctl submit -q --hold --set name=waits counted.yaml
code 0 jobctl submit -q --wait --set name=ended --set run=true counted.yaml
at_the_end() { page | grep -c -e '^jobctl_job_step{.*} 5' -e '^jobctl_job_generation{.*} 2' | grep -x 2; }
wait_for "the second generation at its last step" at_the_end
wait_for "the port in the log" port_of_log
port=$(port_of_log)

# Both formats, by the programs that read them.
page >plain.txt
page -H 'Accept: application/openmetrics-text; version=1.0.0' >open.txt
promtool check metrics <plain.txt
$python - <<'PY'
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser

def read(families):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}

plain = read(parser.text_string_to_metric_families(open("plain.txt").read()))
opened = read(open_parser.text_string_to_metric_families(open("open.txt").read()))
assert plain.keys() == opened.keys(), plain.keys() ^ opened.keys()
job = (("job_id", "1"), ("name", "counted"))
for name, labels, value in [
    ("jobctl_jobs", (("state", "running"),), 1), ("jobctl_jobs", (("state", "held"),), 1),
    ("jobctl_jobs", (("state", "pending"),), 0), ("jobctl_jobs_done_total", (("result", "succeeded"),), 1),
    ("jobctl_failures_total", (("cause", "user_exit"),), 1), ("jobctl_restarts_total", (("cause", "user_exit"),), 1),
    ("jobctl_restarts_total", (("cause", "gpu_oom"),), 0), ("jobctl_attempts_started_total", (), 2),
    ("jobctl_job_step", job, 5), ("jobctl_job_steps", job, 100), ("jobctl_job_loss", job, 0.5),
    ("jobctl_job_generation", job, 2), ("jobctl_queue_wait_seconds_count", (), 2), ("jobctl_store_writable", (), 1),
]:
    assert plain[name, labels] == opened[name, labels] == value, (name, labels, plain.get((name, labels)))
assert ("jobctl_job_step", (("job_id", "3"), ("name", "ended"))) not in plain
steps = plain["jobctl_job_step_seconds_count", job]
assert 1 <= steps <= 8, steps
assert plain["jobctl_job_step_seconds_bucket", tuple(sorted(job + (("le", "+Inf"),)))] == steps
spent = [v for (name, labels), v in plain.items() if name == "jobctl_job_goodput_rank_seconds" and job[0] in labels]
assert len(spent) >= 9 and sum(spent) > 1, spent
PY

# A real Prometheus.
cat >prometheus.yml <<YAML
global: {scrape_interval: 1s}
rule_files: ["$TOP/deploy/grafana/alerts.yaml"]
scrape_configs: [{job_name: jobctl, static_configs: [{targets: ["127.0.0.1:$port"]}]}]
YAML
promtool check config prometheus.yml
web=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address=127.0.0.1:"$web" \
    >prometheus.log 2>&1 &
prometheus=$!
trap 'kill $prometheus; wait $prometheus || true' EXIT
ask() { curl -sS --get "http://127.0.0.1:$web/api/v1/query" --data-urlencode "query=$1" | field data.result.0.value.1; }
tells() { [ "$(ask "$1")" = "$2" ]; }
wait_for "a scrape" tells 'jobctl_job_step{job_id="1"}' 5
tells 'up{job="jobctl"}' 1
tells 'sum(jobctl_restarts_total)' 1
python3 - "$TOP/deploy/grafana/jobctl.json" >queries <<'PY'
import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel.get("targets", []):
        print(target["expr"].replace("$__rate_interval", "1m").replace('"$job"', '".*"'))
PY
[ "$(wc -l <queries)" -ge 10 ]
while read -r query; do
    curl -sS --get "http://127.0.0.1:$web/api/v1/query" --data-urlencode "query=$query" | field status | grep -qx success ||
        { echo "Prometheus does not take: $query"; exit 1; }
done <queries

# The port gives nothing else, and takes nothing.
curl -sS "http://127.0.0.1:$port/v1/jobs" | field error.code | grep -qx not_found
curl -sS -d '{}' "http://127.0.0.1:$port/metrics" | field error.text | grep -q 'use GET'

# A port that somebody else has.
printf 'metrics: {listen: "127.0.0.1:%s"}\n' "$web" >$config
code 0 jobctl daemon restart
wait_for "a sentence in the log" grep -q "cannot listen on 127.0.0.1:$web: Address already in use; change metrics.listen" \
    "$JOBCTL_HOME/daemon.log"
page | grep -q '^jobctl_jobs{state="running"} 1'
code 0 jobctl cancel 1 2
