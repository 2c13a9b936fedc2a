#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh install|uninstall|list BUILD DEST PREFIX PROGRAM... - the installed files, for `make install`, the
# package, the tarball and the wheel alike
#
# Rows are: mode, or `link`; source, or where the link leads; path below PREFIX.  The programs stand in
# lib/jobctl/bin with their plugins in lib/jobctl/lib, as in a build; bin/ has links to them, which each of them
# follows to find the others.  So the whole may be moved, and two versions may live side by side.
set -euo pipefail
action=$1 build=$2 to=$3$4 prefix=$4
shift 4
cd "$(dirname "$0")/.."

each() { # each MODE FOLDER FILE... - files into one folder
    local mode=$1 folder=$2 f
    shift 2
    for f in "$@"; do [ ! -f "$f" ] || printf '%s\t%s\t%s\n' "$mode" "$f" "$folder/${f##*/}"; done
}

tree() { # tree FOLDER FILE... - files with their paths below the top
    local folder=$1 f mode head
    shift
    for f in "$@"; do
        mode=644
        read -r -N 2 head <"$f" 2>/dev/null || :
        [ "$head" != '#!' ] || mode=755
        printf '%s\t%s\t%s\n' $mode "$f" "$folder/$f"
    done
}

rows() {
    local p zsh=site-functions
    for p in "$@"; do
        each 755 lib/jobctl/bin "$build/bin/$p"
        case $p in jobctl-ssh | jobctl-slurm | jobctl-fetch) continue ;; esac  # for jobctl and agents alone
        printf 'link\t%s\t%s\n' "../lib/jobctl/bin/$p" "bin/$p"
    done
    each 644 lib/jobctl/lib "$build"/lib/libjobctl_*.so
    for p in 1 5 8; do each 644 "share/man/man$p" "$build"/man/*."$p"; done
    # Debian's zsh looks below /usr for what packages bring in a folder of its own.
    [ "$prefix" != /usr ] || zsh=vendor-completions
    printf '644\t%s\t%s\n' "$build/completions/bash" share/bash-completion/completions/jobctl \
        "$build/completions/zsh" "share/zsh/$zsh/_jobctl" \
        "$build/completions/fish" share/fish/vendor_completions.d/jobctl.fish \
        deploy/jobctl.service lib/systemd/user/jobctl.service \
        deploy/tmpfiles.d/jobctl.conf lib/tmpfiles.d/jobctl.conf
    tree share/jobctl $(find templates -type f | sort)
    printf '755\t%s\t%s\n' deploy/demo.sh share/jobctl/demo.sh deploy/build_slurm.sh share/jobctl/build-slurm
    tree share/jobctl/slurm controller/slurm/*.[ch] engine/base/err.[ch] engine/base/utf8.[ch] \
        engine/base/json_text.[ch] engine/base/json_make.[ch]
    each 644 share/doc/jobctl README.md README.zh-CN.md CHANGES.md CONTRIBUTING.md LICENSE docs/*
}

# One file.  The unit names the program by its path: systemd does not look for it.
put() {
    local mode=$1 source=$2 target=$to/$3 text
    mkdir -p "${target%/*}"
    case $mode in
    link) ln -sfn "$source" "$target" ;;
    *) install -m "$mode" "$source" "$target" ;;
    esac
    case $source in *.service)
        text=$(<"$source")
        printf '%s\n' "${text//@PREFIX@/"$prefix"}" >"$target" ;;
    esac
}

install_all() {
    local mode source target
    rows "$@" | while IFS=$'\t' read -r mode source target; do put "$mode" "$source" "$target"; done
    share_machine
}

# The directory of lib/tmpfiles.d, not only at the next boot: for this machine, by root, where systemd looks for it.
share_machine() {
    case $to in /usr | /usr/local) ;; *) return 0 ;; esac
    [ "$(id -u)" != 0 ] || [ ! -d /run/systemd/system ] || systemd-tmpfiles --create jobctl.conf || :
}

# What was listed, the folders that hold nothing else, and jobctl-slurm if it was built there.
uninstall_all() {
    local mode source target
    rows "$@" | while IFS=$'\t' read -r mode source target; do rm -f "$to/$target"; done
    rm -f "$to/lib/jobctl/bin/jobctl-slurm"
    find "$to/lib/jobctl" "$to/share/jobctl" "$to/share/doc/jobctl" -depth -type d -empty -delete 2>/dev/null || :
}

case $action in
install) install_all "$@" ;;
uninstall) uninstall_all "$@" ;;
list) rows "$@" ;;
*) echo "install.sh: unknown action '$action'" >&2; exit 2 ;;
esac
