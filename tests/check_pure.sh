#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_pure.sh OBJDIR - the pure cores call no clock, no I/O, no event loop, no store
#
# A decision must be replayable: its object file may not even reference a
# symbol that could make it depend on anything but its arguments.
set -eu
obj=$1
bad=0
pure="
    controller/job_fsm
    controller/job_core
    controller/sched
    controller/retry
    controller/account
    agent/spending
    agent/plan
    agent/plan_view
    agent/plan_gpus
    agent/plan_nccl
    agent/plan_user
    agent/plan_remedy
    agent/plan_nodes
    agent/agent_core
    agent/agent_core_words
    agent/agent_core_again
    agent/agent_core_end
    agent/agent_core_act
    agent/agent_core_nodes
    agent/agent_core_over
    agent/agent_core_part
    agent/agent_core_view
    agent/agent_effects
    agent/agent_event
    agent/rank_line
    agent/blame
    agent/pace
    agent/patience
    agent/remedy
    agent/cause
    agent/rules
    agent/hang
    agent/straggler
    agent/watch
    agent/skip
    engine/batch_plan
    engine/bucket_plan
    engine/shard
    engine/unit_turns
"
banned='^(uv_|sqlite3_|MHD_|curl_|fopen|open|open64|read|write|time|clock|clock_gettime|gettimeofday|rand|random|srand|getenv|socket|fork|kill|printf|puts)'
for f in $pure; do
    [ -f "$obj/$f.o" ] || continue
    hit=$(nm -u "$obj/$f.o" | awk '{print $2}' | sed 's/@.*//' | grep -E "$banned" || true)
    [ -z "$hit" ] || { echo "$f is not pure: it calls $hit" >&2; bad=1; }
done
exit $bad
