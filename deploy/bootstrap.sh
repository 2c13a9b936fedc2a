#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bootstrap.sh - install what the build, the demo and the tests need
#
#   deploy/bootstrap.sh            what `make` and `make demo` need
#   deploy/bootstrap.sh --tests    also what `make test` needs
#   deploy/bootstrap.sh --browser  also what the tests of the dashboard in a browser need (Chromium)
#   deploy/bootstrap.sh --peers    also what the comparisons need (PyTorch)
#   deploy/bootstrap.sh --list     install nothing; print the packages, one per line
#   deploy/bootstrap.sh --check    install nothing; name what is missing and exit with 1
#
# As root, or with sudo, it calls apt-get; otherwise it prints the exact line
# to run and stops with 4.  Nothing is installed when nothing is missing.
set -euo pipefail

packages=(
    gcc make pkg-config libc6-dev
    libsqlite3-dev libjansson-dev libyaml-dev libuv1-dev libmicrohttpd-dev
    libcurl4-openssl-dev libarchive-dev libxxhash-dev libssl-dev
    zlib1g-dev libzstd-dev # a newer libcrypto.a calls both
    libopenblas-pthread-dev libpng-dev libjpeg-dev libwebp-dev libssh-dev
)
tests=(libcmocka-dev g++ clang libomp-dev qemu-user mandoc zsh fish zstd sqlite3 curl openssh-server iproute2 python3 python3-nbclient python3-ipykernel)
# Not every release has these: left out where they are unknown.
optional=(libclang-rt-dev gcc-11)
# A real Slurm for tests/slurm: where it cannot be installed those tests are skipped.
cluster=(slurmctld slurmd slurm-client libslurm-dev munge)
# A container runtime and a program for an image, for tests/e2e/093*-container*.sh: the same. 24 MB to download, 98 MB.
containers=(podman runc busybox-static)
# What reads our metrics and event files, for tests/e2e/0984-tensorboard.sh and 0985-metrics.sh: the same. 30 MB to
# download, 100 MB.
monitors=(prometheus python3-prometheus-client python3-protobuf python3-crc32c)
# A browser for tests/e2e/*dashboard*.sh: the same. 120 MB to download, 450 MB, so it has an argument of its own.
browser=(chromium chromium-driver python3-selenium)
peers=(python3-torch python3-numpy)

check= list=
wanted=()
extra=()
for arg in "$@"; do
    case $arg in
    --tests) packages+=("${tests[@]}"); wanted=("${optional[@]}"); extra+=("${cluster[@]}" "${containers[@]}" "${monitors[@]}") ;;
    --peers) packages+=("${tests[@]}" "${peers[@]}"); wanted=("${optional[@]}"); extra+=("${containers[@]}" "${monitors[@]}") ;;
    --browser) extra+=("${browser[@]}") ;;
    --check) check=1 ;;
    --list) list=1 ;;
    -h | --help) sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bootstrap.sh: unknown argument '$arg'; it takes --tests, --browser, --peers, --list and --check" >&2; exit 2 ;;
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

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }
how_to() {
    echo "Some packages are missing. Run this once, then try again:"
    echo "    sudo apt-get install -y --no-install-recommends ${missing[*]}"
}
missing=()
lacking=()
for p in "${packages[@]}"; do installed "$p" || missing+=("$p"); done
for p in "${extra[@]}"; do installed "$p" || lacking+=("$p"); done
# lacks PACKAGE...: those of them that are not installed
lacks() { for p; do ! printf '%s\n' "${lacking[@]}" | grep -qx -- "$p" || echo "$p"; done; }
[ $((${#missing[@]} + ${#lacking[@]})) -gt 0 ] || exit 0
if [ -n "$check" ]; then
    [ ${#missing[@]} -gt 0 ] || exit 0
    echo "missing: ${missing[*]}"
    how_to
    exit 1
fi

sudo=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo=sudo
    elif [ ${#missing[@]} = 0 ]; then
        exit 0
    else
        how_to >&2
        exit 4
    fi
fi
echo "installing: ${missing[*]} ${lacking[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
for p in "${wanted[@]}"; do
    ! apt-cache show "$p" >/dev/null 2>&1 || missing+=("$p")
done
install() { $sudo env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
[ ${#missing[@]} = 0 ] || install "${missing[@]}"
# RUNLEVEL=1: no service is started where nobody configured one.
for kind in cluster containers monitors browser; do
    declare -n of_kind=$kind
    mapfile -t some < <(lacks "${of_kind[@]}")
    [ ${#some[@]} = 0 ] || install "${some[@]}" ||
        echo "${some[*]} could not be installed: the tests that need them will be skipped" >&2
done
