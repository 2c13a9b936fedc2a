#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wall clock jumps, and the machine is suspended: no deadline, lease or back-off moves with it, and it is told
# once, with its size.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o clock.so "$TOP/tests/fake/clock.c" -ldl
export FAKE_CLOCK=$WORK/clock
# set_clock AHEAD SUSPENDED: in seconds, at once
set_clock() { echo "$1 $2" >clock.new && mv clock.new clock; }

# A clock that is behind the one by which it was waited for: the lease of a mirror is renewed all the same.
set_clock 3600 0
mkdir -p here there
echo "{\"origin\":\"x\",\"keep\":1,\"here\":\"$WORK/here\",\"there\":\"$WORK/there\",\"job_dir\":\"$WORK\",
 \"job\":{\"name\":\"x\",\"spec\":{}}}" >mirror.json
mkfifo orders
JOBCTL_LEASE_MS=300 LD_PRELOAD=$WORK/clock.so jobctl-agent mirror mirror.json <orders >said &
mirror=$!
exec 7>orders
wait_for "the mirror is ready" says ready cat said
beat_past() { [ "$(field beat <there/lease.json)" -gt "$1" ]; }
wait_for "the lease is renewed" beat_past "$(($(field beat <there/lease.json) + 3))"
kill "$mirror"
wait "$mirror" || true
exec 7>&-
