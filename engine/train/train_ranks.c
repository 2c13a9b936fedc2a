/* SPDX-License-Identifier: Apache-2.0 */
/* train_ranks.c - see train_ranks.h */
#include "engine/train/train_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/contract/flight.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/dist/rendezvous.h"
#include "engine/dist/step_sync.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/optim/schedule.h"
#include "engine/optim/step.h"
#include "engine/train/train_state.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

enum {
    PIECE = 1 << 20,     /* floats that one core hashes at a time */
    MEET_MS = 120000,    /* for all processes to start */
    GPUS_MS = 60000,     /* then for GPUs to connect: kernels may be compiled */
    WAIT_MS = 60000,     /* without progress of other ranks */
    ALONE_MS = 3600000   /* while others wait for one rank: data, checkpoints */
};

int train_ranks_failed(struct train *t)
{
    enum dist_fault_kind kind = dist_fault(t->dist)->kind, gpus = t->gpus ? dist_fault(t->gpus)->kind : DIST_FINE;
    if (gpus != DIST_FINE) {
        dist_abort(t->dist); /* other ranks may wait in it */
        kind = kind == DIST_FINE ? DIST_SYSTEM : kind;
    } else if (t->gpus && kind != DIST_FINE) {
        dist_abort(t->gpus); /* a kernel may wait in it for the rank that is gone */
    }
    if (gpus == DIST_DEVICE && t->code == EXIT_DONE) { /* no rank is lost */
        t->err = (struct err){0};
        return backend_check(backend_ops(), &t->err);
    }
    if (kind != DIST_FINE && t->code == EXIT_DONE)
        t->code = kind == DIST_MISMATCH ? EXIT_DESYNC : EXIT_COLLECTIVE;
    return -1;
}

int train_ranks_barrier(struct train *t)
{
    if (dist_barrier(t->dist, &t->err) < 0 || dist_wait_for(t->dist, ALONE_MS, &t->err) < 0)
        return train_ranks_failed(t);
    return 0;
}

int train_ranks_broadcast(struct train *t, void *data, size_t bytes)
{
    if (dist_broadcast(t->dist, data, bytes, DIST_U8, 0, &t->err) < 0 ||
        dist_wait_for(t->dist, ALONE_MS, &t->err) < 0)
        return train_ranks_failed(t);
    return 0;
}

/* The index of this rank's node. */
static int node_of(const struct train *t)
{
    const struct dist_bootstrap *bootstrap = rendezvous_exchange(t->rendezvous);
    int node = 0;
    while (node + 1 < bootstrap->nodes && t->env->rank >= bootstrap->first[node + 1])
        node++;
    return node;
}

bool train_ranks_first_local(const struct train *t)
{
    return rendezvous_exchange(t->rendezvous)->first[node_of(t)] == t->env->rank;
}

int train_ranks_local(const struct train *t)
{
    const int *first = rendezvous_exchange(t->rendezvous)->first + node_of(t);
    return first[1] - first[0];
}

/* --- agreement --------------------------------------------------------------------------- */

/* This rank's record of the coming step. */
static int describe(struct train *t, struct step_sync_words *words)
{
    const size_t n = (size_t)t->spec.batch_global;
    const struct batch batch = batch_plan_at(loader_plan(t->loader), train_plan_step(t));
    const struct dataset_bucket b = dataset_bucket(t->data, batch.bucket);
    struct batch_slot *slots = calloc(n, sizeof(*slots));
    if (!slots)
        return err_set(&t->err, ERR_MEMORY, "out of memory for a plan of %zu samples", n);
    batch_plan_slots(loader_plan(t->loader), slots, train_plan_step(t), 0, t->spec.batch_global);
    *words = step_sync_words(&(struct step_sync_step){.step = t->at, .height = b.height,
                                                      .width = b.width,
                                                      .lr = schedule_lr(&t->spec.schedule, t->at),
                                                      .slots = slots, .samples = n,
                                                      .job =
                                                          t->spec_digest, .data = t->data_digest});
    free(slots);
    return 0;
}

/* A rank without progress for this long is stuck. */
static int64_t timeout_ms(const struct train *t)
{
    return step_sync_patience_ms(&(struct step_sync_pace){.step_s = t->step_s,
                                                          .hang_first_s = t->spec.hang_first_s,
                                                          .hang_step_s = t->spec.hang_step_s,
                                                          .watched = t->env->flight != NULL});
}

/* Sends this rank's record; t->words gets those of all. */
static int gather_records(struct train *t, const struct step_sync_words *mine, int64_t wait_ms)
{
    t->words[t->env->rank] = *mine;
    return step_sync_exchange(t->dist, t->words, wait_ms, &t->err) < 0 ? train_ranks_failed(t) : 0;
}

static int check(struct train *t, const char *what)
{
    if (step_sync_check(t->words, t->env->world_size, what, &t->err) == 0)
        return 0;
    t->code = EXIT_DESYNC;
    return -1;
}

int train_ranks_agree(struct train *t, struct step_sync_orders *orders)
{
    const int world = t->env->world_size;
    if (world == 1)
        return 0;
    struct step_sync_words mine;
    if (describe(t, &mine) < 0)
        return -1;
    mine.asked = (int32_t)orders->asked;
    mine.due = orders->due;
    mine.stage = orders->stage;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    if (gather_records(t, &mine, timeout_ms(t)) < 0 || check(t, "samples, learning rate, job or data") < 0)
        return -1;
    *orders = step_sync_orders(t->words, world);
    return 0;
}

int train_ranks_least(struct train *t, int *value)
{
    const int world = t->env->world_size;
    if (world == 1)
        return 0;
    const struct step_sync_words mine = {.step = t->at, .least = *value};
    if (gather_records(t, &mine, ALONE_MS) < 0)
        return -1;
    *value = step_sync_least(t->words, world);
    return 0;
}

struct digesting {
    const float *numbers;
    size_t       len;
    uint64_t    *digest; /* of each piece */
};

static void digest_pieces(const void *arg, size_t from, size_t to)
{
    const struct digesting *d = arg;
    for (size_t i = from; i < to; i++) {
        const size_t at = i * PIECE, left = d->len - at;
        d->digest[i] = digest_word(d->numbers + at, (left < PIECE ? left : PIECE) * sizeof(float), i);
    }
}

/* Hashes many numbers on all cores. */
static int digest_numbers(struct train *t, const float *numbers, size_t len, uint64_t *digest)
{
    const size_t pieces = (len + PIECE - 1) / PIECE;
    const struct digesting d = {numbers, len, calloc(pieces + 1, sizeof(uint64_t))};
    if (!d.digest)
        return err_set(&t->err, ERR_MEMORY, "no memory to compare the weights of ranks");
    thread_pool_range(pieces, 1, PIECE, digest_pieces, &d);
    *digest = digest_word(d.digest, pieces * sizeof(uint64_t), 0);
    free(d.digest);
    return 0;
}

int train_ranks_same_weights(struct train *t)
{
    const int world = t->env->world_size;
    if (world == 1 || !params_has_all(t->params)) /* each rank has different weights */
        return 0;
    struct step_sync_words mine;
    if (describe(t, &mine) < 0 ||
        digest_numbers(t, params_view(t->params), params_floats(t->params), &mine.hash[0]) < 0)
        return -1;
    mine.hash[1] = 0; /* the hash covers only weights */
    return gather_records(t, &mine, timeout_ms(t)) < 0 ? -1 : check(t, "weights");
}

int train_ranks_wait(struct train *t)
{
    if (dist_wait_for(t->dist, timeout_ms(t), &t->err) < 0 ||
        (t->gpus && dist_wait_for(t->gpus, timeout_ms(t), &t->err) < 0))
        return train_ranks_failed(t);
    return 0;
}

int train_ranks_wait_call(struct train *t, struct dist *d, uint64_t calls)
{
    return dist_wait_call(d, calls, timeout_ms(t), &t->err) < 0 ? train_ranks_failed(t) : 0;
}

/* --- opening ----------------------------------------------------------------------------- */

/* Other ranks would wait for a collective of a rank that found no GPU and computes on the CPU. */
static int same_device(struct train *t)
{
    const struct step_sync_words mine = {.least = backend_ops()->host};
    const struct step_sync_words *all = t->words;
    int odd = 0;
    if (gather_records(t, &mine, ALONE_MS) < 0)
        return -1;
    while (odd < t->env->world_size && all[odd].least == all[0].least)
        odd++;
    if (odd == t->env->world_size)
        return 0;
    return err_set(&t->err, ERR_USAGE, "rank %d computes on %s, but rank 0 on %s; the rank's log has the "
                   "reason. Repair the GPU, or set resources.gpus to fewer or to 0", odd,
                   all[odd].least ? "the CPU" : "a GPU", all[0].least ? "the CPU" : "a GPU");
}

static const char *env_or(const char *name, const char *none)
{
    const char *text = getenv(name);
    return text && *text ? text : none;
}

/* Unique for these ranks: job, attempt, generation, and a secret of the attempt. */
static int meeting_name(char name[DIST_NAME], struct err *err)
{
    const char *port = env_or("MASTER_PORT", NULL);
    const char *secret = env_or("JOBCTL_NONCE", env_or("JOBCTL_RUN_DIR", port));
    if (!secret)
        return err_set(err, ERR_USAGE, "WORLD_SIZE is above 1, but ranks cannot find each other: "
                                       "set JOBCTL_RUN_DIR to a directory of this run");
    snprintf(name, DIST_NAME, "%.20s.%.20s.%.20s.%016llx", env_or("JOBCTL_JOB_ID", "0"), env_or("JOBCTL_ATTEMPT", "1"),
             env_or("JOBCTL_GENERATION", "1"), (unsigned long long)digest_word(secret, strlen(secret), 0));
    return 0;
}

/* All ranks are connected, so GPUS_MS need not allow for late processes. */
static int connect_gpus(struct train *t, const struct dist_config *ranks)
{
    struct dist_device device = {backend_ops(), backend_streams(), backend_sharers() > 1, t->dist};
    struct dist_config c = *ranks;
    t->device = device;
    c.device = &t->device;
    c.flight = NULL;
    c.init_ms = GPUS_MS + 10 * c.world;
    if (train_ranks_barrier(t) < 0)
        return -1;
    if (dist_connect(&t->gpus, &c, NULL, &t->err) < 0) {
        t->code = t->err.code == ERR_SYSTEM ? EXIT_COLLECTIVE : EXIT_DONE;
        dist_abort(t->dist);
        return -1;
    }
    if (train_is_first(t) && device.shared) {
        printf("gpus: each shared by %d ranks; gradients are added in host memory\n", backend_sharers());
    } else if (train_is_first(t)) {
        const char *doubt, *name = dist_about(t->gpus, &doubt);
        printf("gpus: %d, connected by %s\n", c.world, name);
        if (doubt)
            progress_warning(t->progress, "%s", doubt);
    }
    return 0;
}

int train_ranks_open(struct train *t)
{
    char name[DIST_NAME];
    struct dist_fault fault;
    const struct train_env *e = t->env;
    if (e->rank >= e->world_size)
        return err_set(&t->err, ERR_USAGE, "RANK is %d; with WORLD_SIZE %d it must be at most %d",
                       e->rank, e->world_size, e->world_size - 1);
    t->words = calloc((size_t)e->world_size, sizeof(*t->words));
    if (!t->words)
        return err_set(&t->err, ERR_MEMORY, "out of memory for %d ranks", e->world_size);
    if ((e->world_size > 1 && meeting_name(name, &t->err) < 0) ||
        rendezvous_open(&t->rendezvous, t->progress, e->world_size, &t->err) < 0)
        return -1;
    struct dist_config c = {.rank = e->rank, .world = e->world_size, .name = name,
                            .init_ms = MEET_MS, .wait_ms = WAIT_MS, .flight = t->flight,
                            .bootstrap = rendezvous_exchange(t->rendezvous)};
    if (dist_connect(&t->dist, &c, &fault, &t->err) == 0) {
        if (e->world_size > 1)
            printf("ranks: this is %d of %d\n", e->rank, e->world_size);
        if (e->world_size == 1)
            return 0;
        if (same_device(t) < 0)
            return -1;
        return backend_ops()->host ? 0 : connect_gpus(t, &c);
    }
    if (t->err.code == ERR_SYSTEM)
        t->code = EXIT_COLLECTIVE;
    return -1;
}

void train_ranks_close(struct train *t)
{
    dist_destroy(t->gpus);
    dist_destroy(t->dist);
    rendezvous_close(t->rendezvous);
    free(t->words);
}

/* --- traffic ---------------------------------------------------------------------------- */

struct train_traffic train_ranks_traffic(const struct train *t)
{
    const struct dist_stats none = {0}, *s = dist_stats(t->dist);
    const struct dist_stats *g = t->gpus ? dist_stats(t->gpus) : &none;
    return (struct train_traffic){t->at, train_clock(), 1e-9 * (double)(s->wait_ns + g->wait_ns),
                               s->moved + g->moved, s->wire};
}

void train_ranks_summary(const struct train *t, const struct train_traffic *before)
{
    struct train_traffic now = train_ranks_traffic(t);
    double steps = (double)(now.step - before->step), mib = steps * (1 << 20);
    if (t->env->world_size == 1 || steps < 1)
        return;
    printf("ranks: %.1f %% of the time waiting for communication; %.2f MiB per step to other ranks",
           100 * (now.wait_s - before->wait_s) / (now.at_s - before->at_s),
           (double)(now.moved - before->moved) / mib);
    const struct dist_bootstrap *m = rendezvous_exchange(t->rendezvous);
    double here = (double)m->first[1] / t->env->world_size; /* fraction of the sums made on this node */
    if (m->nodes > 1 && !t->gpus)
        printf(", %.2f MiB of it to other nodes (gradients need %.2f)",
               (double)(now.wire - before->wire) / mib,
               (1 - here + here * (m->nodes - 1)) * sizeof(float) *
                   (double)layout_floats(model_layout(step_model(t->step))) / (1 << 20));
    printf("\n");
}

int train_ranks_sum(struct train *t, double *value)
{
    const int world = t->env->world_size;
    if (world == 1)
        return 0;
    const struct step_sync_words mine = {.step = t->at, .value = *value};
    if (gather_records(t, &mine, timeout_ms(t)) < 0)
        return -1;
    *value = step_sync_sum(t->words, world);
    return 0;
}
