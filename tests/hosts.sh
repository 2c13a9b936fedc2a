# SPDX-License-Identifier: Apache-2.0
# hosts.sh - real SSH hosts on this machine for a test: . "$TOP/tests/hosts.sh"
#
# Each is an OpenSSH server of this user on a port of the loopback interface, with a key, a home
# directory ($WORK/NAME) and processes of its own; $HOME/.ssh knows them by name. Needs no root.
#
# With hosts_apart each also has a network, a host name and an address of its own (10.77.0.11 and
# on), on a cable to a switch at which the rest of the test sits: that takes root.
#
#   hosts_apart           the test's first words: run it again, in namespaces of its own; ends it
#                         with 77 and a sentence where there are none
#   host_cut NAME         what goes to it or comes from it is lost in silence, until host_mend NAME
#   host_off NAME         its power: cut, and then everything on it is ended
#   hosts_up NAME...      start them; ends the test with 77 and a sentence where there is no sshd
#   host_drop NAME        end its connections, as a reset does; it goes on listening
#   host_freeze NAME      nothing on it runs any more: neither sshd nor what was started through it
#   host_thaw NAME        undo host_freeze
#   host_down NAME        sshd ends, with all connections; what was started through it lives on
#   host_up NAME          start it (again), on the same port
#   host_relays NAME N    so many commands of jobctl -H are connected: a login under way would outlive host_down
#   host_pids NAME        processes that live there, by the mark of its home
#   host_bare NAME DIR... it gets a root of its own: a C library, a shell, /dev, /proc, its home, and
#                         these directories; ends the test with 77 where there are no mount
#                         namespaces. $WORK/NAME.root is that root, as long as the test runs
. "$TOP/tests/e2e/wait.sh"
sshd=$(command -v sshd || echo /usr/sbin/sshd)

host_pids() {
    local f
    for f in $(grep -lzxF "HOME=$WORK/$1" /proc/[0-9]*/environ 2>/dev/null); do
        f=${f%/environ}
        case $(sed -n 's/^State:\t\(.\).*/\1/p' "$f/status" 2>/dev/null) in Z | X | '') continue ;; esac
        echo "${f#/proc/}"
    done
}
host_relays() { # NAME N
    local p n=0
    for p in $(host_pids "$1"); do
        ! grep -qzx relay "/proc/$p/cmdline" 2>/dev/null || n=$((n + 1))
    done
    [ $n = "$2" ]
}
host_tree() { # PID: it and its descendants
    local c
    echo "$1"
    for c in $(cat "/proc/$1/task/"*/children 2>/dev/null); do host_tree "$c"; done
}
host_sessions() { # NAME: sshd's children and theirs, the agents not among them
    local pid
    pid=$(cat "$WORK/$1.sshd.pid" 2>/dev/null) || return 0
    for c in $(cat "/proc/$pid/task/"*/children 2>/dev/null); do host_tree "$c"; done
}
host_address() { cat "$WORK/$1.address" 2>/dev/null || echo 127.0.0.1; }
host_run() { # NAME COMMAND...: there
    local name=$1
    shift
    [ ! -s "$WORK/$name.mounts" ] || set -- nsenter -t "$(cat "$WORK/$name.mounts")" -m -- "$@"
    [ ! -s "$WORK/$name.holder" ] || set -- nsenter -t "$(cat "$WORK/$name.holder")" -n -u -- "$@"
    "$@"
}
hosts_apart() {
    [ -z "${HOSTS_APART:-}" ] || return 0
    command -v bridge >/dev/null || { echo "no bridge command here: install iproute2"; exit 77; }
    unshare --net --uts ip link add br0 type bridge 2>/dev/null ||
        { echo "no network namespaces with bridges here: that takes root (CAP_SYS_ADMIN, CAP_NET_ADMIN)"; exit 77; }
    HOSTS_APART=1 exec unshare --net --uts bash -eu "$0"
}
host_is_apart() { # NAMESPACE PID: it has one of its own, and its program runs
    [ "$(readlink "/proc/$2/ns/$1")" != "$(readlink "/proc/self/ns/$1")" ] && [ "$(cat "/proc/$2/comm")" = sleep ]
}
# The namespaces of a host, held by a process, and its cable.
host_wire() { # NAME
    local k holder mac
    k=$(ls "$WORK"/*.holder 2>/dev/null | wc -l)
    mac=02:77:00:00:00:$(printf %02x $((11 + k)))
    if [ "$k" = 0 ]; then
        ip link set lo up
        ip link add br0 address 02:77:00:00:00:01 type bridge stp_state 0 forward_delay 0
        ip addr add 10.77.0.1/24 dev br0
        ip link set br0 up
    fi
    unshare --net --uts sleep infinity </dev/null >/dev/null 2>&1 &
    holder=$!
    wait_for 20 "a network of its own for $1" host_is_apart net $holder
    echo $holder >"$WORK/$1.holder"
    echo "10.77.0.$((11 + k))" >"$WORK/$1.address"
    echo "$mac" >"$WORK/$1.mac"
    ip link add "v$1" type veth peer name eth0 address "$mac" netns "$holder"
    ip link set "v$1" master br0 up
    host_run "$1" sh -ec "hostname $1; ip link set lo up
        ip addr add 10.77.0.$((11 + k))/24 dev eth0; ip link set eth0 up"
}
# Everybody knows everybody's address for ever: a cut is silence, not an unreachable host.
hosts_acquaint() {
    local h o
    for h in $hosts; do
        ip neigh replace "$(host_address "$h")" lladdr "$(cat "$WORK/$h.mac")" nud permanent dev br0
        host_run "$h" ip neigh replace 10.77.0.1 lladdr 02:77:00:00:00:01 nud permanent dev eth0
        for o in $hosts; do
            [ "$o" = "$h" ] || host_run "$h" ip neigh replace "$(host_address "$o")" \
                lladdr "$(cat "$WORK/$o.mac")" nud permanent dev eth0
        done
    done
}
host_cut() { bridge link set dev "v$1" state 0; }
host_mend() { bridge link set dev "v$1" state 3; }
host_off() {
    local p
    host_cut "$1"
    for p in $(cat "$WORK/$1.sshd.pid") $(host_sessions "$1") $(host_pids "$1"); do
        kill -KILL "$p" 2>/dev/null || true
    done
}
host_config() { # NAME PORT
    local sftp=/usr/lib/openssh/sftp-server     # Debian's default, which a login that prints breaks
    [ -x $sftp ] && [ ! -s "$WORK/$1.mounts" ] || sftp=internal-sftp
    cat >"$WORK/$1.sshd" <<CONF
ListenAddress $(host_address "$1")
Port $2
HostKey $WORK/$1.key
PidFile $WORK/$1.sshd.pid
AuthorizedKeysFile $HOME/.ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
PrintMotd no
PrintLastLog no
MaxStartups 200
Subsystem sftp ${HOST_SFTP:-$sftp}
SetEnv HOME=$WORK/$1 JOBCTL_HOME=$JOBCTL_HOME JOBCTL_MACHINE_DIR=none ${HOST_ENV:-}
${HOST_EXTRA:-}
CONF
    [ ! -s "$WORK/$1.mounts" ] || echo "ChrootDirectory /mnt" >>"$WORK/$1.sshd"
}
host_up() { # NAME [PORT]
    local port=${2:-$(sed -n 's/^Port //p' "$WORK/$1.sshd")}
    host_config "$1" "$port"
    rm -f "$WORK/$1.sshd.pid"
    host_run "$1" "$sshd" -f "$WORK/$1.sshd" -E "$WORK/$1.sshd.log" 2>>"$WORK/$1.sshd.log" || return 1
    wait_for 5 "sshd of $1 listens" test -s "$WORK/$1.sshd.pid"
}
host_new() {
    local port i
    mkdir -p "$WORK/$1"
    [ -z "${HOSTS_APART:-}" ] || host_wire "$1"
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$WORK/$1.key"
    for i in $(seq 50); do
        port=$((20000 + RANDOM % 12000))
        host_up "$1" $port && break
    done
    [ -s "$WORK/$1.sshd.pid" ] || { cat "$WORK/$1.sshd.log"; return 1; }
    printf 'Host %s\n  HostName %s\n  Port %s\n' "$1" "$(host_address "$1")" "$port" >>"$HOME/.ssh/config"
    echo "[$(host_address "$1")]:$port $(cut -d' ' -f1,2 "$WORK/$1.key.pub")" >>"$HOME/.ssh/known_hosts"
}
hosts_up() {
    [ -x "$sshd" ] || { echo "no sshd here: install openssh-server"; exit 77; }
    [ -x "$BIN/jobctl-ssh" ] || { echo "built without libssh: no jobctl-ssh"; exit 77; }
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    mkdir -p -m 700 "$HOME/.ssh"
    ssh-keygen -q -t ed25519 -N '' -C test -f "$HOME/.ssh/id_ed25519"
    cp "$HOME/.ssh/id_ed25519.pub" "$HOME/.ssh/authorized_keys"
    hosts=$*
    trap hosts_down EXIT
    for h in $hosts; do host_new "$h"; done
    [ -z "${HOSTS_APART:-}" ] || hosts_acquaint
    # libssh's own defaults; OpenSSH (as a jump) looks in the passwd entry's home, so say where.
    printf 'Host *\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n' "$(id -un)" \
        "$HOME/.ssh/id_ed25519" "$HOME/.ssh/known_hosts" >>"$HOME/.ssh/config"
}
host_drop() {
    local p
    for p in $(host_sessions "$1"); do kill -KILL "$p" 2>/dev/null || true; done
}
host_frozen() { echo "$(cat "$WORK/$1.sshd.pid") $(host_sessions "$1") $(host_pids "$1")"; }
host_freeze() { for p in $(host_frozen "$1"); do kill -STOP "$p" 2>/dev/null || true; done; }
host_thaw() { for p in $(host_frozen "$1"); do kill -CONT "$p" 2>/dev/null || true; done; }
host_down() {
    local pid
    pid=$(cat "$WORK/$1.sshd.pid" 2>/dev/null) || return 0
    for p in $(host_tree "$pid"); do kill -KILL "$p" 2>/dev/null || true; done
    wait_for "sshd of $1 ends" ended "$pid"
}
# Namespace and mounts end with the process that holds them.
host_bare() {
    local name=$1 holder shell f libs
    shift
    unshare --mount true 2>/dev/null || { echo "no mount namespaces here: that takes root (CAP_SYS_ADMIN)"; exit 77; }
    command -v dash >/dev/null || { echo "no dash here, the smallest of shells"; exit 77; }
    shell=$(getent passwd "$(id -un)" | cut -d: -f7)
    libs=$(ldd "$(command -v dash)" | grep -o '/[^ ]*')
    for f in $libs; do
        case $f in */libc.so.6) libs="$libs $(ls "${f%/*}"/lib{m,pthread,dl,rt,util,resolv}.so.[0-9] 2>/dev/null)" ;; esac
    done
    host_down "$name"
    unshare --mount sleep infinity </dev/null >/dev/null 2>&1 &
    holder=$!
    wait_for 20 "mounts of its own for $name" host_is_apart mnt $holder
    echo $holder >"$WORK/$name.mounts"
    ln -s "/proc/$holder/root/mnt" "$WORK/$name.root"
    nsenter -t $holder -m -- sh -ec '
        mount -t tmpfs -o mode=755 none /mnt
        mkdir -p /mnt/bin /mnt/dev /mnt/proc /mnt/root "/mnt${1%/*}"
        mkdir -m 1777 /mnt/tmp
        cp -L "$(command -v dash)" /mnt/bin/sh
        [ -e "/mnt$1" ] || ln -s /bin/sh "/mnt$1"
        cp -L --parents $2 /mnt
        mount --rbind /dev /mnt/dev
        mount --rbind /proc /mnt/proc
        shift 2
        for d; do mkdir -p "/mnt$d"; mount --bind "$d" "/mnt$d"; done
    ' sh "$shell" "$libs" "$WORK/$name" "$@"
    host_up "$name"
}
hosts_down() {
    local h p
    for h in $hosts; do
        host_thaw "$h" 2>/dev/null || true
        host_down "$h"
        for p in $(host_pids "$h") $(cat "$WORK/$h.holder" "$WORK/$h.mounts" 2>/dev/null); do
            kill -KILL "$p" 2>/dev/null || true
        done
    done
}
