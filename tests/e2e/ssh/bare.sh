# SPDX-License-Identifier: Apache-2.0
# launch: ssh on a host with only a C library and a shell: no bash, no coreutils, no other library. The programs are
# copied, the agent starts, and a job trains to the same bits as here. A C library that is too old is reported as such.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/nodes.sh"
cd "$WORK"
hosts_up bare
place here
place there
host_bare bare "$WORK/there" "$TOP/templates"
[ "$(ls bare.root/bin | tr '\n' ' ')" = 'bash sh ' ] || [ "$(ls bare.root/bin)" = sh ]
[ ! -e bare.root/usr ]

jobctl submit -q here/nodes.yaml --set resources.nodes=1
jobctl submit -q there/nodes.yaml --set resources.nodes=1 --set launch=ssh --set 'hosts=[bare]'
jobctl wait 1 2 || { jobctl logs --events 2; cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME"/jobs/2/1/*.log; exit 1; }
same here there

# The newest part of it that jobctl needs, and this shell does not, is taken out of it.
versions() { grep -ao 'GLIBC_2\.[0-9.]*[0-9]' "$1" | sort -Vu; }
lib=$(ldd "$BIN/jobctl-agent" | grep -o '/[^ ]*/libc\.so\.6')
new=$(comm -23 <(versions "$BIN/jobctl-agent" | sort) <(versions bare.root/bin/sh | sort) | sort -V | tail -n 1)
sed -i "s/$new/${new%?}x/g" "bare.root$lib"
rm -r bare/.cache
code 2 jobctl-ssh probe bare
has 'the C library of bare is too old for this build of jobctl; build jobctl on your oldest system' err
has "$new" err
