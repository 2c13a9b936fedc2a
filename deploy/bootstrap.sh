#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bootstrap.sh - install what the build, the demo and the tests need
#
#   deploy/bootstrap.sh            what `make` and `make demo` need
#   deploy/bootstrap.sh --tests    also what `make check` and `make test` need
#   deploy/bootstrap.sh --all      also what `make test-all` needs: compilers, Slurm, podman, Prometheus, PyTorch, Chromium
#   deploy/bootstrap.sh --list     install nothing; print the packages, one per line
#
# It calls apt-get as root, or with sudo.  Who has neither gets the line that an administrator has to run, and 4 as exit
# code.  Nothing is installed when nothing is missing.
set -euo pipefail
here=$(dirname "$0")
. "$here/progress.sh"

# libraries [!] libcmocka - the packages of libs.txt, without this library or of it alone
libraries() { awk -F ' *[|] *' -v all="${1%libcmocka}" '!/^#/ && ($1 == "libcmocka") != (all == "!") { print $NF }' "$here/libs.txt"; }

mapfile -t packages < <(libraries '!libcmocka')
packages=(gcc make pkg-config libc6-dev "${packages[@]}" libzstd-dev) # a newer libcrypto.a calls libzstd
mapfile -t tests < <(libraries libcmocka)
tests+=(python3 sqlite3 curl zstd procps mandoc)
all=(g++ clang libomp-dev qemu-user zsh fish openssh-server iproute2 python3-venv python3-nbclient python3-ipykernel
    python3-torch python3-numpy)
# Each line is installed where it can be; elsewhere the tests that need it are skipped.
more=(
    libclang-rt-dev
    gcc-11
    'slurmctld slurmd slurm-client libslurm-dev munge'                                # tests/slurm
    'podman runc busybox-static'                                                      # tests/e2e/container/*.sh
    'prometheus python3-prometheus-client python3-protobuf python3-crc32c'            # tests/e2e/metrics/*.sh
    'chromium chromium-driver python3-selenium'                                       # tests/e2e/browser.sh
)

list=
for arg in "$@"; do
    case $arg in
    --tests) packages+=("${tests[@]}") ;;
    --all) packages+=("${tests[@]}" "${all[@]}") wanted=("${more[@]}") ;;
    --list) list=1 ;;
    -h | --help) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bootstrap.sh: unknown argument '$arg'; it takes --tests, --all and --list" >&2; exit 2 ;;
    esac
done

if [ -n "$list" ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "bootstrap.sh: this is not a Debian or Ubuntu system." >&2
    echo "Install the equivalents of: ${packages[*]}" >&2
    exit 4
fi

# absent PACKAGE... - those of them that are not installed
absent() {
    local p
    for p; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || :)" = installed ] || echo "$p"
    done
}
mapfile -t missing < <(absent "${packages[@]}")
# shellcheck disable=SC2068
mapfile -t lacking < <(absent ${wanted[@]+${wanted[@]}})
[ $((${#missing[@]} + ${#lacking[@]})) -gt 0 ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
        sudo=sudo
    elif [ ${#missing[@]} = 0 ]; then
        exit 0
    else
        echo "Packages are missing, and installing them takes root or sudo.  Nothing was changed.  Ask an administrator to run" >&2
        echo "this as root, then try again:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 4
    fi
fi
export DEBIAN_FRONTEND=noninteractive

# apt ARGUMENT... - apt-get install.  RUNLEVEL=1: no service is started where nobody configured one.
apt() { $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }
install() {
    local plan total
    plan=$(apt -s "$@") || return
    total=$(grep -c '^Inst ' <<<"$plan") || :
    apt -o Dpkg::Use-Pty=0 "$@" </dev/null | sed -unE 's/^Need to get ([1-9].*) of archives\./  to download: \1/p; /^(Unpacking|Setting up) /p' |
        progress "packages, step" $((2 * total)) '^(Unpacking [^ ]+|Setting up [^ ]+)'
}
echo "Installing: ${missing[*]} ${lacking[*]}"
$sudo apt-get update -qq
[ ${#missing[@]} = 0 ] || install "${missing[@]}"
for line in ${wanted[@]+"${wanted[@]}"}; do
    # shellcheck disable=SC2086
    mapfile -t some < <(absent $line)
    [ ${#some[@]} = 0 ] || install "${some[@]}" ||
        echo "${some[*]} could not be installed: the tests that need them will be skipped" >&2
done
