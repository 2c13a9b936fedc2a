/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - messages from a rank to its agent (events), and back (commands)
 *
 * JSON, one object per line of at most PROGRESS_LINE bytes, on the descriptor in
 * JOBCTL_EVENT_FD; nowhere if the variable is unset.  stdout and stderr are
 * for people.  Only `step` lines may be dropped if the pipe is full: all
 * other lines wait.  The reader ignores unknown kinds and fields,
 * so that a newer rank can talk to an older agent.
 *
 *   {"ev":"started","rank":0,"world_size":1,"resume_step":17,"steps":40,"params":192672,
 *    "backend":"cpu"}
 *   {"ev":"step","step":18,"steps":40,"loss":0.93,"grad_norm":1.2,"lr":0.002,
 *    "samples_per_s":812.5,"step_ms":19.6,"data_ms":0.2,"forward_ms":6.1,
 *    "backward_ms":11,"reduce_ms":1.2,"optimizer_ms":1.1} (rank 0's own phases, on average since the line before)
 *   {"ev":"checkpoint","step":20,"path":"/...","bytes":123,"ms":12,"stall_ms":1,
 *    "digest":"xxh3:..."}                         ms: duration; stall_ms: time without steps
 *   {"ev":"quarantined","path":"/...","reason":"..."}
 *   {"ev":"sample","step":40,"path":"/..."}
 *   {"ev":"no_room","over":false,"step":40,"bytes":123,"free":45,"wait_s":1800,"path":"/...","text":"..."}
 *                                                training is paused until a checkpoint of this size fits there; free:
 *                                                -1 = not known; over: it fits
 *   {"ev":"encoding","over":false,"done":12,"total":40,"saved":9,"per_s":1.5,"left_s":19,
 *    "text":"..."}                               pictures and captions are encoded before the first step; saved: rank
 *    0's, in complete files; left_s: -1 = not known; over: all are encoded
 *   {"ev":"snapshots","every":21,"bytes":123,"copy_s":0.4,"step_s":0.95,"text":"..."}   the interval was chosen
 *   {"ev":"fetch","text":"1.2 GB of 3.3 GB"}     from jobctl-fetch, which runs before the ranks
 *   {"ev":"warning","text":"...","lasts":true}   lasts: only if it stays true as long as the ranks run
 *   {"ev":"failed","cause":"nan_loss","exit_code":76,"text":"...","step":17}    cause: agent/core/cause.h
 *   {"ev":"done","step":40,"loss":0.12}
 *   {"ev":"detached","cause":"nccl_error","text":"...","step":17}   a collective failed; the rank
 * waits
 *                                                for a rejoin (engine/train/rejoin.h) or a stop
 *   {"ev":"rendezvous","key":"tcp.2","value":"10.0.0.5:40123"}    for all ranks of this generation
 *
 * Commands come the other way, one JSON object per line on JOBCTL_CONTROL_FD:
 *
 *   {"cmd":"checkpoint"}        write one at the next step boundary
 *   {"cmd":"stop"}              checkpoint at the next step boundary, then exit 75
 *   {"cmd":"rendezvous","key":"tcp.2","value":"10.0.0.5:40123"}   published by a rank
 *   {"cmd":"rejoin",...}        join the next generation; see engine/train/rejoin.h
 *
 * End of file on the control descriptor means that the agent is gone, and counts
 * as stop.  So does SIGTERM.
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

/* Takes the descriptors from the environment; both may be absent.  A missing agent is not an
 * error. */
int progress_open(struct progress **out, struct err *err);
void progress_close(struct progress *p);

void progress_started(struct progress *p, int rank, int world_size, int64_t resume_step,
                      int64_t steps, int64_t params, const char *backend);
void progress_step(struct progress *p, int64_t step, int64_t steps, double loss, double grad_norm,
                   double lr, double samples_per_s, double step_ms, const double *phase_ms);
void progress_checkpoint(struct progress *p, int64_t step, const char *path, int64_t bytes,
                         double ms, double stall_ms, const char *digest);
void progress_quarantined(struct progress *p, const char *path, const char *reason);
void progress_sample(struct progress *p, int64_t step, const char *path);
/* A checkpoint does not fit on its disk, or (over) fits now. */
struct progress_room {
    bool        over;
    int64_t     step, need, left; /* bytes needed, and free or -1 */
    double      wait_s;           /* seconds until the run gives up */
    const char *path, *text;
};
void progress_no_room(struct progress *p, const struct progress_room *r);
/* Data is encoded before the first step, or (over) all of it is. */
struct progress_encoding {
    bool        over;
    int64_t     done, total, saved;
    double      per_s, left_s; /* left_s: -1 = not known */
    const char *text;
};
void progress_encoding(struct progress *p, const struct progress_encoding *e);
/* The number of steps between snapshots in memory, and the measurements behind it. */
struct progress_snapshots {
    int         every;
    int64_t     bytes;          /* size of one copy */
    double      copy_s, step_s; /* seconds of a copy, and of a step */
    const char *text;
};
void progress_snapshots(struct progress *p, const struct progress_snapshots *s);
/* Progress of a download by jobctl-fetch, before the ranks start: {"ev":"fetch","text":"..."} */
void progress_fetch(struct progress *p, const char *text);
void progress_warning(struct progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void progress_warning_lasts(struct progress *p, const char *text);
void progress_failed(struct progress *p, const char *cause, int exit_code, const char *text,
                     int64_t step); /* the step; -1 = none */
void progress_done(struct progress *p, int64_t step, double loss);

void progress_detached(struct progress *p, const char *cause, const char *text, int64_t step);

/* The newest {"cmd":"rejoin"} not taken yet, a new reference, or NULL. Values that
 * ranks published before it are discarded. */
json_t *progress_rejoin(struct progress *p);

/* Waits until a command may have arrived, at most this long. */
void progress_wait(struct progress *p, int timeout_ms);

/* Publish a value to all ranks, through the agents; look up a published value, or NULL. A value has
 * at most 1000 characters. See rendezvous.h. */
void progress_rendezvous(struct progress *p, const char *key, const char *value);
const char *progress_rendezvous_find(struct progress *p, const char *key);
bool progress_has_agent(const struct progress *p);

/* The strongest command since the last call; never blocks. */
enum progress_command progress_poll(struct progress *p);

/* Before the first step: was a stop requested? progress_poll() still reports it later. */
bool progress_stop_asked(struct progress *p);

#endif
