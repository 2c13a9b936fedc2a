/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - the state of a run as a directory that is either complete or absent
 *
 *   ROOT/step-00000040/  model.safetensors      weights under the authors' names
 *                        optimizer.safetensors  moments, factors, "ema.<name>"
 *                        state.json             counters, seed, digests of spec and data
 *                        manifest.json          sizes and digests, written last
 *                        trust                  "verified" or "good"; not in the manifest
 *   ROOT/quarantine/     damaged checkpoints, each with reason.txt
 *
 * Written in a temporary directory, every file and directory synced, read back and compared with memory, then renamed;
 * in a leased directory only if the lease is still the job's, otherwise ERR_CONFLICT (engine/contract/fence.h), which
 * no other failure of this header returns. A checkpoint is independent of ranks: any number of ranks loads it. Trust:
 * verified (read back) when it appears, good when the run has taken CHECKPOINT_GOOD_STEPS finite steps after it.
 */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_H
#define ENGINE_CHECKPOINT_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/manifest.h"

struct err;
struct layout;
struct optim;
struct state;

#define CHECKPOINT_WEIGHTS "model.safetensors"
#define CHECKPOINT_MOMENTS "optimizer.safetensors"
#define CHECKPOINT_STATE   "state.json"

enum { CHECKPOINT_PATH = 4096, CHECKPOINT_GOOD_STEPS = 10 };

struct checkpoint_state {
    int64_t  step;          /* optimizer steps completed */
    int64_t  optim_count;   /* updates counted by the optimizer */
    uint64_t seed;
    double   loss;          /* of the last step, for display */
    char     spec_digest[MANIFEST_DIGEST];
    char     data_digest[MANIFEST_DIGEST];
    char     base_digest[MANIFEST_DIGEST]; /* digest of the frozen weights, which are not in the checkpoint; "": none */
    const json_t *job;      /* the job spec, and dataset_codec() or NULL: kept so that a */
    const json_t *codec;    /* checkpoint can be sampled without the data; a load leaves it unset */
    const json_t *exact;    /* state of a reproducible run, or NULL; the same */
    const json_t *left_out; /* skipped steps, or NULL; the same */
};

struct checkpoint_info {
    char    path[CHECKPOINT_PATH];
    int64_t step, bytes;
    char    digest[MANIFEST_DIGEST];
};

/* All ranks write a checkpoint below `root` (created if missing): the first rank names it and begins, all ranks write
 * the ranges that they save, and when all are done the first commits, or abandons if a rank failed. A failed begin or
 * commit leaves nothing behind. An existing checkpoint of that step is moved to quarantine. *w can be sent to the other
 * ranks as soon as it has a name. From begin on, only the arguments are read: another thread may make the calls, if no
 * thread changes the arguments. */
struct checkpoint_writing {
    char    path[CHECKPOINT_PATH], tmp[CHECKPOINT_PATH];
    int64_t step;
    bool    disk_full; /* why it failed */
};

int checkpoint_name(struct checkpoint_writing *w, const char *root, int64_t step, struct err *err);
int checkpoint_begin(struct checkpoint_writing *w, const struct state *s, struct err *err);
int checkpoint_fill(struct checkpoint_writing *w, const struct state *s, struct err *err);
int checkpoint_commit(struct checkpoint_info *info, struct checkpoint_writing *w, const struct checkpoint_state *state,
                      const struct layout *l, struct err *err);
void checkpoint_abandon(const struct checkpoint_writing *w);

/* Verifies the manifest, then loads. ERR_DATA: damaged; ERR_USAGE: intact, but for another model or optimizer; the
 * message names the tensor. After a failure, weights and optimizer may be partly filled. `o` NULL: weights only; `ema`
 * true: the averaged weights if there are any. */
int checkpoint_load(struct checkpoint_state *state, const char *dir, const struct layout *l,
                    float *weights, struct optim *o, bool ema, struct err *err);

/* The same for the ranges that a rank holds; the caller sets the optimizer's count. */
int checkpoint_load_parts(struct checkpoint_state *state, const char *dir, const struct layout *l,
                          const struct state *into, bool ema, struct err *err);

/* The JSON that a checkpoint keeps beside its tensors, with "job" and "codec"; the caller owns
 * it. */
json_t *checkpoint_notes(const char *dir, struct err *err);

typedef void (*checkpoint_bad_fn)(void *arg, const char *path, const char *reason);

/* The newest checkpoint below root that verifies: 1 and *info, or 0 if there is none. Damaged ones
 * that are newer go to quarantine and are reported to `bad`. Removes temporary files of dead
 * writers. */
int checkpoint_latest(struct checkpoint_info *info, const char *root, checkpoint_bad_fn bad,
                      void *arg, struct err *err);

/* Newest step below root by name alone, or -1. */
int64_t checkpoint_newest_step(const char *root);

/* Moves one to ROOT/quarantine with the reason; *to gets the new path. */
int checkpoint_quarantine(char to[CHECKPOINT_PATH], const char *dir, const char *reason, struct err *err);

/* Approximate bytes of a checkpoint of this state on disk; free bytes on the disk of `root`, or -1 if not known. */
int64_t checkpoint_need(const struct state *s);
int64_t checkpoint_free(const char *root);

/* Marks a checkpoint as good. */
int checkpoint_mark_good(const char *dir, struct err *err);
bool checkpoint_is_good(const char *dir);

/* Removes all but the newest `keep`, and never the newest good one. */
int checkpoint_prune(const char *root, int keep, struct err *err);

#endif
