#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Invalid requests: each gets an answer in the API's form with the right status, the daemon keeps running, and the store
# holds only valid requests.
set -eu
jobctl status >/dev/null
/usr/bin/python3 "$TOP/tests/payload/api_nonsense.py" "$JOBCTL_HOME/jobctl.sock"
jobctl status -a >/dev/null
