# SPDX-License-Identifier: Apache-2.0
# An agent that cannot be started, once: why has all of its sentence.
. "$TOP/tests/e2e/expect.sh"

cd "$WORK"
real=$(dirname "$(command -v jobctl)")
mkdir bin
cp "$real/jobctl" bin/
ln -s "$real/jobctl-train" bin/
cat >bin/jobctl-agent <<SH
#!/bin/sh
[ "\$1" != run ] || [ -e '$WORK/failed' ] && exec '$real/jobctl-agent' "\$@"
touch '$WORK/failed'
printf '%0230d, and this is its end\n' 7 >&2
exit 9
SH
chmod +x bin/jobctl-agent
PATH=$WORK/bin:$PATH

cat >job.yaml <<'YAML'
resources: {gpus: 0}
retry: {max: 2, backoff: 10ms..20ms}
run: "true"
YAML
code 0 jobctl submit job.yaml --wait
code 0 jobctl why 1
tr -s '\n ' ' ' <out >line
has "It could not be started once; most recent: cannot start its agent (exit code 9): 00000" line
has ", and this is its end." line
