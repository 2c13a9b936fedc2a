# SPDX-License-Identifier: Apache-2.0
# hosts.sh - real SSH hosts on this machine for a test: . "$TOP/tests/hosts.sh"
#
# Each is an OpenSSH server of this user on a port of the loopback interface, with a key, a home
# directory ($WORK/NAME) and processes of its own; $HOME/.ssh knows them by name. Needs no root.
#
#   hosts_up NAME...      start them; ends the test with 77 and a sentence where there is no sshd
#   host_drop NAME        end its connections, as a reset does; it goes on listening
#   host_freeze NAME      nothing on it runs any more: neither sshd nor what was started through it
#   host_thaw NAME        undo host_freeze
#   host_down NAME        sshd ends, with all connections; what was started through it lives on
#   host_up NAME          start it (again), on the same port
#   host_pids NAME        processes that live there, by the mark of its home
sshd=$(command -v sshd || echo /usr/sbin/sshd)

host_pids() {
    local d
    for d in /proc/[0-9]*; do
        { tr '\0' '\n' <"$d/environ"; } 2>/dev/null | grep -qxF "HOME=$WORK/$1" || continue
        case $(sed -n 's/^State:\t\(.\).*/\1/p' "$d/status" 2>/dev/null) in Z | X | '') continue ;; esac
        echo "${d#/proc/}"
    done
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
host_config() { # NAME PORT
    cat >"$WORK/$1.sshd" <<CONF
ListenAddress 127.0.0.1
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
Subsystem sftp ${HOST_SFTP:-internal-sftp}
SetEnv HOME=$WORK/$1 JOBCTL_HOME=$JOBCTL_HOME
${HOST_EXTRA:-}
CONF
}
host_up() { # NAME [PORT]
    local port=${2:-$(sed -n 's/^Port //p' "$WORK/$1.sshd")} i
    host_config "$1" "$port"
    rm -f "$WORK/$1.sshd.pid"
    "$sshd" -f "$WORK/$1.sshd" -E "$WORK/$1.sshd.log" 2>>"$WORK/$1.sshd.log" || return 1
    for i in $(seq 200); do
        [ -s "$WORK/$1.sshd.pid" ] && return 0
        sleep 0.01
    done
    return 1
}
host_new() {
    local port i
    mkdir -p "$WORK/$1"
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$WORK/$1.key"
    for i in $(seq 50); do
        port=$((20000 + RANDOM % 12000))
        host_up "$1" $port && break
    done
    [ -s "$WORK/$1.sshd.pid" ] || { cat "$WORK/$1.sshd.log"; return 1; }
    printf 'Host %s\n  HostName 127.0.0.1\n  Port %s\n' "$1" "$port" >>"$HOME/.ssh/config"
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$WORK/$1.key.pub")" >>"$HOME/.ssh/known_hosts"
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
    while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; do sleep 0.01; done
}
hosts_down() {
    local h p
    for h in $hosts; do
        host_thaw "$h" 2>/dev/null || true
        host_down "$h"
        for p in $(host_pids "$h"); do kill -KILL "$p" 2>/dev/null || true; done
    done
}
