# SPDX-License-Identifier: Apache-2.0
# The helper for other machines, by hand: it follows ~/.ssh/config, trusts known keys only, never prompts, copies its
# programs once, resumes an interrupted upload, and verifies each file by reading it back.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one two

# The first time programs are sent, the second time they are there.
code 0 jobctl-ssh probe one
has '"hostname"' out
empty err
cache=$WORK/one/.cache/jobctl/$(jobctl-ssh digest)
cmp "$BIN/jobctl-train" "$cache/bin/jobctl-train"
[ "$(stat -c %a "$cache")" = 700 ]
[ ! -e "$cache.part" ]
before=$(stat -c %Y.%i "$cache/bin/jobctl-train")
code 0 jobctl-ssh probe one
[ "$(stat -c %Y.%i "$cache/bin/jobctl-train")" = "$before" ]

# An upload that was cut goes on; one whose beginning is wrong is found out, and sent anew.
cache=$WORK/two/.cache/jobctl/$(jobctl-ssh digest)
mkdir -p "$cache.part/bin"
head -c 1000000 "$BIN/jobctl-train" >"$cache.part/bin/jobctl-train"
number=$(stat -c %i "$cache.part/bin/jobctl-train")
code 0 jobctl-ssh probe two
cmp "$BIN/jobctl-train" "$cache/bin/jobctl-train"
[ "$(stat -c %i "$cache/bin/jobctl-train")" = "$number" ]
rm -rf "$cache"
mkdir -p "$cache.part/bin"
head -c 1000000 /dev/zero >"$cache.part/bin/jobctl-train"
code 0 jobctl-ssh probe two
cmp "$BIN/jobctl-train" "$cache/bin/jobctl-train"

# A login that talks does no harm, not even to the sending of programs.
rm -rf "$WORK/two/.cache"
echo 'echo welcome to this machine; echo and mind the step >&2' >"$WORK/two/.bashrc"
code 0 jobctl-ssh probe two

# Through another host, as ProxyJump says.
cp "$HOME/.ssh/config" config
if command -v ssh >/dev/null; then
    printf 'Host far\n  HostName 127.0.0.1\n  Port %s\n  ProxyJump one\n' \
        "$(sed -n 's/^Port //p' two.sshd)" | cat - config >"$HOME/.ssh/config"
    code 0 jobctl-ssh probe far
    has '"hostname"' out
fi

# As a user asks.
code 0 jobctl nodes test one two
has 'one   ok ' out
has 'two   ok ' out
code 0 jobctl nodes test --json one
json "o['hosts'][0]['ok'] and o['hosts'][0]['facts']['hostname']"
printf 'Host nowhere\n  HostName 127.0.0.1\n  Port 1\n' | cat - config >"$HOME/.ssh/config"
code 1 jobctl nodes test one nowhere
has 'one      ok ' out
has 'nowhere  host nowhere refused the connection on port 1' out
code 2 jobctl nodes tset one
has 'jobctl nodes test|add|drain|resume|remove HOST...' err
[ ! -e "$JOBCTL_HOME" ]

# Nobody is there; a host that nobody knows; one whose key has changed; keys that it does not take.
printf 'Host gone\n  HostName 127.0.0.1\n  Port 1\n' | cat - config >"$HOME/.ssh/config"
code 5 jobctl-ssh probe gone
has 'host gone refused the connection on port 1' err
cp config "$HOME/.ssh/config"
cp "$HOME/.ssh/known_hosts" known
grep -v "$(cut -d' ' -f2 one.key.pub)" known >"$HOME/.ssh/known_hosts" || true
host_down one
HOST_EXTRA='LogLevel DEBUG1' host_up one
rm one.sshd.log # it has that name no more: a new one begins
host_down one
HOST_EXTRA='LogLevel DEBUG1' host_up one
code 2 jobctl-ssh probe one
has 'one is not in known_hosts; run `ssh one` once, compare the host key (ssh-ed25519 SHA256:' err
sed "s#$(cut -d' ' -f2 one.key.pub)#$(cut -d' ' -f2 two.key.pub)#" known >"$HOME/.ssh/known_hosts"
code 2 jobctl-ssh probe one
has 'the host key of one has CHANGED' err
! grep userauth-request one.sshd.log || exit 1 # no key was offered, not even a name was told
cp known "$HOME/.ssh/known_hosts"
: >"$HOME/.ssh/authorized_keys"
code 2 jobctl-ssh probe one
has 'one rejected the keys of ' err
grep -q userauth-request one.sshd.log
cp "$HOME/.ssh/id_ed25519.pub" "$HOME/.ssh/authorized_keys"

# A key with a passphrase is not asked for, even where there is a terminal.
ssh-keygen -q -p -P '' -N secret -f "$HOME/.ssh/id_ed25519"
code 2 script -qec 'jobctl-ssh probe one' typescript
has 'add a key with a passphrase to ssh-agent' out
ssh-keygen -q -p -P secret -N '' -f "$HOME/.ssh/id_ed25519"

# A host that listens and says nothing is given up.
printf 'Host one\n  ConnectTimeout 2\n' | cat - config >"$HOME/.ssh/config"
host_freeze one
code 5 jobctl-ssh probe one
has 'one' err
host_thaw one

# The one path that the host chooses and a shell there reads: no program text can be in it.
host_down two
HOST_ENV="XDG_CACHE_HOME=$WORK/a\`touch$WORK/owned\`b" host_up two
code 2 jobctl-ssh probe two
has 'contains a special shell character' err
[ ! -e owned ]
host_down two
host_up two

# A host that runs another command than the one that it is sent, and says that all went well.
printf '#!/bin/sh\necho "{welcome}"\necho "{\\"name\\":1}"\n' >other
chmod 755 other
host_down two
HOST_EXTRA="ForceCommand $WORK/other" host_up two
code 4 jobctl-ssh probe two
has 'two does not run the commands of jobctl' err
code 1 jobctl nodes test two
has 'does not run the commands' out
host_down two
host_up two

# A machine of another kind is told before anything is sent: its shell is for another processor.
sftp=/usr/lib/openssh/sftp-server
if [ -x $sftp ] &&
    unshare -rm sh -c 'mount --bind /bin/true "$(readlink -f /bin/sh)"' 2>/dev/null; then
    head -c 18 /bin/true >arm-shell
    printf '\267\000' >>arm-shell
    head -c 100 /dev/zero >>arm-shell
    cat >arm-sftp <<SH
#!/bin/sh
exec unshare -rm sh -c 'mount --bind $WORK/arm-shell "\$(readlink -f /bin/sh)"; exec $sftp'
SH
    chmod 755 arm-sftp
    host_down two
    rm -rf two/.cache two/.bashrc
    HOST_SFTP=$WORK/arm-sftp host_up two
    code 2 jobctl-ssh probe two
    has 'two is arm64, but this jobctl is built for ' err
    [ ! -e two/.cache ]
fi
