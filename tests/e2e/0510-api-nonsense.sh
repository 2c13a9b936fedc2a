#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Requests that nobody should send: each gets an answer of the API's shape with
# the right status, the daemon lives on and the store holds only what was right.
set -eu
jobctl status >/dev/null
/usr/bin/python3 "$TOP/tests/payload/api_nonsense.py" "$JOBCTL_HOME/jobctl.sock"
jobctl status -a >/dev/null
