#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_scripts.sh - bash -e does not end at a command that is told to fail: "! grep secret file" alone in a
# test would test nothing.  It must say what happens: || exit 1
set -u
cd "$(dirname "$0")/.." || exit 1
if grep -nE '^[[:space:]]*! ' tests/*/*.sh | grep -vF '||'; then
    echo 'check_scripts.sh: these test nothing; say "! COMMAND || exit 1"'
    exit 1
fi
