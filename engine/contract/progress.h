/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - the lines by which a rank tells its agent what happened
 *
 * JSON, one object a line of at most PROGRESS_LINE bytes, on the descriptor in
 * JOBCTL_EVENT_FD; nowhere when the variable is unset.  stdout and stderr are
 * for people.  Only `step` lines may be dropped when the pipe is full: all
 * other lines wait for room.  Unknown kinds and fields are ignored by the
 * reader, so that a newer rank can talk to an older agent.
 *
 *   {"ev":"started","rank":0,"world_size":1,"resume_step":17,"steps":40,"params":192672,
 *    "backend":"cpu"}
 *   {"ev":"step","step":18,"steps":40,"loss":0.93,"grad_norm":1.2,"lr":0.002,
 *    "samples_per_s":812.5,"step_ms":19.6}
 *   {"ev":"checkpoint","step":20,"path":"/...","bytes":123,"ms":12,"stall_ms":1,
 *    "digest":"xxh3:..."}                         ms: until it was whole; stall_ms: no step was taken
 *   {"ev":"quarantined","path":"/...","reason":"..."}
 *   {"ev":"sample","step":40,"path":"/..."}
 *   {"ev":"warning","text":"..."}
 *   {"ev":"failed","cause":"nan_loss","exit_code":76,"text":"...","step":17}    cause: agent/core/cause.h
 *   {"ev":"done","step":40,"loss":0.12}
 *   {"ev":"detached","cause":"nccl_error","text":"...","step":17}   a collective failed, and it can be
 *                                                asked to rebuild (engine/train/rejoin.h) or to end
 *   {"ev":"rendezvous","key":"tcp.2","value":"10.0.0.5:40123"}    for all ranks of this generation
 *
 * Commands come the other way, one JSON object a line on JOBCTL_CONTROL_FD:
 *
 *   {"cmd":"checkpoint"}        write one at the next step boundary
 *   {"cmd":"stop"}              checkpoint at the next step boundary, then exit 75
 *   {"cmd":"rendezvous","key":"tcp.2","value":"10.0.0.5:40123"}   what a rank has said
 *   {"cmd":"rejoin",...}       belong to the next generation; see engine/train/rejoin.h
 *
 * End of file on the control descriptor means that the agent is gone: the same
 * as stop.  SIGTERM means stop too.
 */
#ifndef ENGINE_CONTRACT_PROGRESS_H
#define ENGINE_CONTRACT_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum { PROGRESS_LINE = 4096 };

enum progress_command { CMD_NONE, CMD_CHECKPOINT, CMD_STOP };

struct progress;

/* Descriptors from the environment; both may be absent.  Never fails for want of an agent. */
int progress_open(struct progress **out, struct err *err);
void progress_close(struct progress *p);

void progress_started(struct progress *p, int rank, int world_size, int64_t resume_step,
                      int64_t steps, int64_t params, const char *backend);
void progress_step(struct progress *p, int64_t step, int64_t steps, double loss, double grad_norm,
                   double lr, double samples_per_s, double step_ms);
void progress_checkpoint(struct progress *p, int64_t step, const char *path, int64_t bytes,
                         double ms, double stall_ms, const char *digest);
void progress_quarantined(struct progress *p, const char *path, const char *reason);
void progress_sample(struct progress *p, int64_t step, const char *path);
void progress_warning(struct progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void progress_failed(struct progress *p, const char *cause, int exit_code, const char *text,
                     int64_t step); /* at which; -1 = none */
void progress_done(struct progress *p, int64_t step, double loss);

void progress_detached(struct progress *p, const char *cause, const char *text, int64_t step);

/* The newest {"cmd":"rejoin"} that has come and was not yet taken, a new reference, or NULL. What
 * ranks have said to each other before it is forgotten. */
json_t *progress_rejoin(struct progress *p);

/* Until a command may have come, at most so long. */
void progress_wait(struct progress *p, int timeout_ms);

/* Say something to all ranks, by way of the agents; what one has said, or NULL. A value has at most
 * 1000 characters. See rendezvous.h. */
void progress_rendezvous(struct progress *p, const char *key, const char *value);
const char *progress_rendezvous_find(struct progress *p, const char *key);
bool progress_has_agent(const struct progress *p);

/* What was asked since the last call, the strongest first; never blocks. */
enum progress_command progress_poll(struct progress *p);

/* Before the first step: is a stop asked?  What is asked stays so, for progress_poll(). */
bool progress_stop_asked(struct progress *p);

#endif
