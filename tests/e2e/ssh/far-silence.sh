# SPDX-License-Identifier: Apache-2.0
# jobctl -H over a silently cut cable, as with a laptop's network: a short silence costs nothing, a long one is
# reported, and the output continues where it was.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH"
hosts_up far
mkfifo feed
exec 9<>feed
cat >echo.yaml <<YAML
name: echo
run: exec sed -u '/^end/q' $WORK/feed
resources: {gpus: 0, ranks: 1}
YAML
code 0 jobctl -H far submit -q echo.yaml
jobctl -H far logs -f echo >logs.out 2>logs.err &
logs=$!
lines_of() { [ "$(wc -l <logs.out)" -ge "$1" ]; }
feed() { seq -f 'line %.0f' "$1" "$2" >&9; }
feed 1 50
wait_for "the first lines" lines_of 50

host_cut far
feed 51 100
sleep 2 # the length of the cut is what is tested
host_mend far
wait_for "the lines after a short silence" lines_of 100
[ ! -s logs.err ]

host_cut far
feed 101 150
wait_for "a sentence" grep -q '; trying again' logs.err
host_mend far
wait_for "the lines after a long silence" lines_of 150
has 'far answers again after ' logs.err
echo end >&9
wait $logs
seq -f 'line %.0f' 150 | cmp - <(grep '^line' logs.out)
