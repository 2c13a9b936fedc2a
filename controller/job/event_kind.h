/* SPDX-License-Identifier: Apache-2.0 */
/* event_kind.h - the kinds of events: one table for all that the controller does with them
 *
 * Pure: no clock, no I/O.
 * Bodies: agent/wire/wire.h (events of agents) and controller/job/job_core.h (those of the controller).
 * To add a kind, add a row; an unknown kind, from a newer agent, is stored and changes nothing.
 */
#ifndef CONTROLLER_JOB_EVENT_KIND_H
#define CONTROLLER_JOB_EVENT_KIND_H

#include <stdbool.h>

enum event_flag {
    EVENT_IS_LIVE = 1,      /* LIVE: not stored, changes only numbers in the job's row */
    EVENT_IS_NEWS = 2,      /* NEWS: --follow prints it ... */
    EVENT_IS_BAD = 4,       /* BAD: ... in yellow */
    EVENT_IS_EVIDENCE = 8,  /* WHY: evidence for `jobctl why` */
    EVENT_IS_FAULT = 16,    /* FAULT: by which drills see that the fault was noticed */
    EVENT_IS_AGENTS = 32,   /* an agent sends it; otherwise the controller makes it */
    EVENT_IS_END = 64       /* END: of the attempt */
};

/* clang-format off */
/* kind, arrow (job_fsm.h), effect on the job (job_core.c), sentence (event_text.c), flags */
#define EVENTS_OF_CONTROLLER(X)                                                                                        \
  X(SUBMITTED,          submitted,          NO_ARROW,  apply_submitted,        submitted,          0)                  \
  X(HELD,               held,               EV_HOLD,   apply_held,             NULL,               NEWS)               \
  X(RELEASED,           released,           EV_HOLD,   apply_held,             NULL,               NEWS)               \
  X(EDITED,             edited,             EV_HOLD,   apply_edited,           edited,             NEWS|WHY)           \
  X(PLACED,             placed,             EV_PLACE,  apply_placed,           placed,             WHY)                \
  X(AGENT_UP,           agent_up,           EV_UP,     apply_agent_up,         agent_up,           0)                  \
  X(AGENT_LOST,         agent_lost,         NO_ARROW,  apply_attempt_over,     text_only,          NEWS|BAD|WHY|FAULT|END) \
  X(START_FAILED,       start_failed,       NO_ARROW,  apply_attempt_over,     text_only,          NEWS|BAD|WHY|FAULT|END) \
  X(STOP_REQUESTED,     stop_requested,     EV_STOP,   apply_stop_requested,   stop_requested,     NEWS|WHY)           \
  X(RETRY,              retry,              EV_RETRY,  apply_retry,            retry,              NEWS|WHY)           \
  X(CLOCK,              clock,              NO_ARROW,  apply_clock,            text_only,          NEWS)               \
  X(REBUILT,            rebuilt,            NO_ARROW,  apply_rebuilt,          text_only,          NEWS|BAD|WHY)       \
  X(DONE,               done,               EV_END,    apply_done,             done,               WHY)
#define EVENTS_OF_AGENT(X)                                                                                             \
  X(FACTS,              facts,              NO_ARROW,  NULL,                   NULL,               0)                  \
  X(LEASE,              lease,              NO_ARROW,  NULL,                   text_only,          NEWS)               \
  X(PREFLIGHT,          preflight,          NO_ARROW,  NULL,                   text_only,          NEWS)               \
  X(PLAN,               plan,               NO_ARROW,  NULL,                   plan,               NEWS)               \
  X(NODES,              nodes,              NO_ARROW,  NULL,                   nodes,              WHY)                \
  X(NODE_LOST,          node_lost,          NO_ARROW,  NULL,                   text_only,          NEWS|WHY)           \
  X(DEADLINE,           deadline,           NO_ARROW,  NULL,                   text_only,          NEWS)               \
  X(PULL_STARTED,       pull_started,       NO_ARROW,  apply_pull_started,     pull_started,       NEWS|WHY)           \
  X(PULL_DONE,          pull_done,          NO_ARROW,  apply_pull_done,        pull_done,          NEWS|WHY)           \
  X(FETCH_STARTED,      fetch_started,      NO_ARROW,  apply_fetch_started,    NULL,               NEWS|WHY)           \
  X(FETCH_PROGRESS,     fetch_progress,     NO_ARROW,  apply_fetch_progress,   text_only,          NEWS)               \
  X(FETCH_DONE,         fetch_done,         NO_ARROW,  apply_pull_done,        fetch_done,         NEWS|WHY)           \
  X(SETUP_STARTED,      setup_started,      NO_ARROW,  NULL,                   NULL,               NEWS)               \
  X(SETUP_DONE,         setup_done,         NO_ARROW,  NULL,                   setup_done,         NEWS|WHY)           \
  X(GENERATION_STARTED, generation_started, EV_RUN,    apply_generation_run,   generation_started, NEWS)               \
  X(RANK_STARTED,       rank_started,       NO_ARROW,  apply_rank_started,     rank_started,       0)                  \
  X(STEP,               step,               NO_ARROW,  apply_step,             step,               LIVE)               \
  X(LEARNED,            learned,            NO_ARROW,  NULL,                   NULL,               0)                  \
  X(STRAGGLER,          straggler,          NO_ARROW,  NULL,                   straggler,          NEWS|WHY)           \
  X(GPU_EVENT,          gpu_event,          NO_ARROW,  NULL,                   text_only,          NEWS|WHY)           \
  X(NCCL,               nccl,               NO_ARROW,  NULL,                   text_only,          NEWS|WHY)           \
  X(HANG,               hang,               NO_ARROW,  NULL,                   hang,               NEWS|FAULT)         \
  X(GPU_FAULT,          gpu_fault,          NO_ARROW,  NULL,                   gpu_fault,          NEWS)               \
  X(INCIDENT,           incident,           NO_ARROW,  NULL,                   incident,           0)                  \
  X(EXCLUDED,           excluded,           NO_ARROW,  NULL,                   excluded,           NEWS|WHY)           \
  X(RANK_EXITED,        rank_exited,        NO_ARROW,  NULL,                   rank_exited,        FAULT)              \
  X(GENERATION_ENDED,   generation_ended,   EV_FALTER, apply_generation_ended, generation_ended,   NEWS|BAD|WHY|FAULT) \
  X(RESTART_SCHEDULED,  restart_scheduled,  NO_ARROW,  apply_reason,           restart_scheduled,  NEWS|WHY)           \
  X(CHECKPOINT,         checkpoint,         NO_ARROW,  apply_checkpoint,       checkpoint,         NEWS)               \
  X(MIRRORED,           mirrored,           NO_ARROW,  NULL,                   mirrored,           0)                  \
  X(RESTORED,           restored,           NO_ARROW,  NULL,                   restored,           NEWS)               \
  X(NO_ROOM,            no_room,            NO_ARROW,  apply_no_room,          text_only,          NEWS|BAD|WHY)       \
  X(ENCODING,           encoding,           NO_ARROW,  apply_encoding,         text_only,          NEWS|WHY)           \
  X(SNAPSHOTS,          snapshots,          NO_ARROW,  NULL,                   text_only,          WHY)                \
  X(QUARANTINED,        quarantined,        NO_ARROW,  NULL,                   quarantined,        NEWS|BAD|WHY)       \
  X(SAMPLE,             sample,             NO_ARROW,  NULL,                   sample,             NEWS)               \
  X(WARNING,            warning,            NO_ARROW,  apply_warning,          warning,            NEWS|BAD|WHY)       \
  X(STOP_ASKED,         stop_asked,         NO_ARROW,  NULL,                   NULL,               FAULT)              \
  X(ATTEMPT_ENDED,      attempt_ended,      NO_ARROW,  apply_attempt_over,     attempt_ended,      WHY|END)
#define EVENTS(X) EVENTS_OF_CONTROLLER(X) EVENTS_OF_AGENT(X)
/* clang-format on */

#define EVENT_KIND(id, name, arrow, apply, text, flags) EVENT_##id,
enum event_kind { EVENT_UNKNOWN, EVENTS(EVENT_KIND) EVENT_KINDS };

enum event_kind event_kind_of(const char *name);        /* name may be NULL */
const char *event_kind_name(enum event_kind kind);      /* "" of EVENT_UNKNOWN */
bool event_kind_is(enum event_kind kind, enum event_flag flag);

#endif
