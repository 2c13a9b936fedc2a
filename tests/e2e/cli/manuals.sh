# SPDX-License-Identifier: Apache-2.0
# The manual pages: one per command, program and file, in valid man(7), with every option and every key.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

code 0 jobctl help pages
mkdir pages
while read -r page; do jobctl help man "$page" >"pages/$page"; done <out
commands=$(jobctl help --all | sed '/^Exit codes/,$d' | grep -c '^  [a-z]')
[ "$commands" = "$(find pages -name 'jobctl-*.1' ! -name jobctl-train.1 | wc -l)" ]
for page in jobctl.1 jobctl.yaml.5 jobctl-config.5 jobctl-train.1 jobctl-agent.8; do [ -s "pages/$page" ]; done
mandoc -T lint -W warning pages/*

# As text: every option, key, subcommand and setting; and each reference leads to a page.
for page in pages/*; do mandoc -T ascii "$page" | sed 's/.\x08//g' >"$page.txt"; done
[ -s pages/jobctl-submit.1.txt ]
for command in submit status prune nodes; do
    jobctl help $command | grep -oE -e '--[a-z-]+ ' >options
    while read -r option; do grep -qF -e "$option" "pages/jobctl-$command.1.txt"; done <options
done
for key in resources.min_nodes train.optimizer.lr 'watch\[\].pattern'; do
    grep -q "^ *$key (" pages/jobctl.yaml.5.txt
done
for key in groups host_lost node_lost call_address notify; do grep -q "^ *$key (" pages/jobctl-config.5.txt; done
grep -q '^ *verify-resume --dir DIR' pages/jobctl-train.1.txt
grep -q '^ *probe \[DIR\]' pages/jobctl-agent.8.txt
grep -ohE 'jobctl[a-z.-]*\([158]\)' pages/*.txt | sort -u | tr '()' '. ' >references
[ "$(wc -l <references)" -gt 30 ]
while read -r page; do [ -s "pages/$page" ]; done <references

# By the name of a command, too; a page that is not there is a wrong call.
jobctl help man submit | cmp - pages/jobctl-submit.1
code 2 jobctl help man jobctl-submit.5
has "jobctl help pages lists them" err
code 2 jobctl help glossary man
