/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_sum.c - jobctl-train sum: test whether NCCL adds correctly between two GPUs
 *
 * Two processes, as in a job: if NCCL hangs it cannot be stopped from within, so each
 * may be killed.  They communicate in shared memory.  The deadline starts when
 * both have opened their GPU: the time that CUDA takes to start does not count.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_make.h"
#include "engine/dist/dist.h"
#include "engine/model/backend.h"
#include "kernels/kernels.h"

enum { SIDES = 2, START_MS = 60000, DEADLINE_MS = 15000, NAP_MS = 2, ID = 300 };

/* A single number, a size that does not divide evenly, and enough for all channels. */
static const size_t sizes[] = {1, 4097, 1 << 20};

enum stage { STARTING, OPEN, DONE, FAILED };

struct side {
    _Atomic int stage;
    int         code;     /* for a failure: enum err_code */
    int64_t     words, wrong, ms;
    char        why[200];
};

struct page {
    _Atomic int id_told;
    char        id[ID];
    struct side side[SIDES];
};

/* --- child process --------------------------------------------------------------------------- */

static int put(void *arg, const char *key, const char *value, struct err *err)
{
    struct page *page = arg;
    (void)key;
    if (strlen(value) >= ID)
        return err_set(err, ERR_BUG, "NCCL's id has %zu bytes", strlen(value));
    memcpy(page->id, value, strlen(value) + 1);
    atomic_store(&page->id_told, 1);
    return 0;
}

static const char *get(void *arg, const char *key)
{
    struct page *page = arg;
    (void)key;
    return atomic_load(&page->id_told) ? page->id : NULL;
}

/* Small whole numbers, so that a sum of floats is exact. */
static float number(size_t i, int rank)
{
    return (float)((i * 7 + (size_t)rank * 13) % 1021);
}

static int try_size(struct side *s, struct dist *d, float *here, void *there, size_t n, struct err *err)
{
    const struct kern_ops *k = backend_ops();
    for (size_t i = 0; i < n; i++)
        here[i] = number(i, dist_rank(d));
    k->upload(there, here, n * sizeof(*here));
    if (dist_all_reduce(d, there, n, DIST_F32, DIST_SUM, err) < 0 || dist_wait(d, err) < 0)
        return -1;
    k->download(here, there, n * sizeof(*here));
    for (size_t i = 0; i < n; i++)
        s->wrong += here[i] != number(i, 0) + number(i, 1);
    s->words += (int64_t)n;
    return backend_check(k, err);
}

static int add_up(struct page *page, int rank, struct err *err)
{
    const size_t most = sizes[sizeof(sizes) / sizeof(sizes[0]) - 1];
    const int first[] = {0, SIDES};
    const struct dist_bootstrap bootstrap = {.nodes = 1, .first = first, .put = put, .get = get,
                                             .arg = page};
    const struct dist_device device = {.ops = backend_ops(), .streams = backend_streams()};
    const struct dist_config config = {.rank = rank, .world = SIDES, .name = "sum",
                                       .init_ms = START_MS, .wait_ms = START_MS, .bootstrap = &bootstrap,
                                       .device = &device};
    struct dist *d = NULL;
    void *there = backend_alloc(device.ops, most * sizeof(float), USE_EXCHANGE, err);
    float *here = malloc(most * sizeof(*here));
    int rc = here ? 0 : err_set(err, ERR_MEMORY, "no memory for numbers to add up");
    int64_t began = clock_ms();
    if (rc == 0)
        rc = there ? dist_connect(&d, &config, NULL, err) : -1;
    for (size_t i = 0; rc == 0 && i < sizeof(sizes) / sizeof(sizes[0]); i++)
        rc = try_size(&page->side[rank], d, here, there, sizes[i], err);
    page->side[rank].ms = clock_ms() - began;
    dist_destroy(d);
    device.ops->release(there);
    free(here);
    return rc;
}

/* In a process of its own, which ends with its parent. */
static void be_rank(struct page *page, int rank)
{
    struct side *s = &page->side[rank];
    struct err err = {0};
    char local[8];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(2, 1); /* NCCL writes to stdout, which carries our result */
    snprintf(local, sizeof(local), "%d", rank);
    setenv("LOCAL_RANK", local, 1);
    int rc = backend_open("cuda", "fp32", &err);
    if (rc == 0) {
        atomic_store(&s->stage, OPEN);
        rc = add_up(page, rank, &err);
    }
    s->code = err.code;
    snprintf(s->why, sizeof(s->why), "%.199s", err.text);
    atomic_store(&s->stage, rc == 0 ? DONE : FAILED);
    _exit(0);
}

/* --- parent process -------------------------------------------------------------------------- */

/* Ended without a message: a crash. */
static void note_end(struct side *s, int rank, int status)
{
    if (atomic_load(&s->stage) >= DONE)
        return;
    s->code = ERR_SYSTEM;
    snprintf(s->why, sizeof(s->why), "rank %d ended by signal %d", rank, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    atomic_store(&s->stage, FAILED);
}

/* 1: both are done, or one has failed. 0: deadline passed; -1: they did not even open their
 * GPUs. */
static int await(struct page *page, pid_t pids[SIDES], int64_t deadline_ms)
{
    int64_t end = clock_ms() + START_MS;
    bool open = false;
    for (; clock_ms() < end; usleep(NAP_MS * 1000)) {
        int done = 0, status, started = 0;
        for (int i = 0; i < SIDES; i++) {
            if (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                note_end(&page->side[i], i, status);
                pids[i] = -1;
            }
            int stage = atomic_load(&page->side[i].stage);
            if (stage == FAILED)
                return 1;
            done += stage == DONE;
            started += stage >= OPEN;
        }
        if (done == SIDES)
            return 1;
        if (started == SIDES && !open)
            end = clock_ms() + deadline_ms;
        open = started == SIDES;
    }
    return open ? 0 : -1;
}

static int tell(struct page *page, int ended, int64_t deadline_ms)
{
    const struct side *bad = atomic_load(&page->side[0].stage) == FAILED ? &page->side[0]
                             : atomic_load(&page->side[1].stage) == FAILED ? &page->side[1] : NULL;
    const int64_t wrong = page->side[0].wrong + page->side[1].wrong;
    char late[80] = "";
    struct err err = {0};
    if (ended < 0 || (ended && bad && bad->code == ERR_NO_DEVICE)) {
        err_set(&err, ERR_NO_DEVICE, "the GPUs cannot be tested: %s",
                bad ? bad->why : "CUDA did not start on them within a minute");
        return train_cmd_fail("sum", &err);
    }
    if (!ended)
        snprintf(late, sizeof(late), "no sum within %.3g s", (double)deadline_ms / 1000);
    json_t *said = json_make("{s:i, s:s, s:I, s:I, s:I, s:s}", "schema", 1, "outcome",
                             !ended ? "hangs" : bad ? "fails" : wrong > 0 ? "wrong data" : "ok",
                             "words", (json_int_t)page->side[0].words, "wrong", (json_int_t)wrong,
                             "ms", (json_int_t)page->side[0].ms, "why", bad ? bad->why : late);
    json_dumpf(said, stdout, JSON_COMPACT);
    puts("");
    json_decref(said);
    return EXIT_DONE;
}

int train_cmd_sum(int argc, char **argv)
{
    const char *gpus = NULL, *ms = NULL;
    const struct train_cmd_option options[] = {
        {.name = "--gpus", .value = &gpus, .required = true},
        {.name = "--deadline-ms", .value = &ms},
        {.name = NULL},
    };
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    const int64_t deadline_ms = ms && atoll(ms) > 0 ? atoll(ms) : DEADLINE_MS;
    struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[SIDES] = {-1, -1};
    if (page == MAP_FAILED)
        return train_cmd_fail("sum",
                              &(struct err){.code = ERR_MEMORY, .text = "no shared memory"});
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
    for (int i = 0; i < SIDES; i++)
        if ((pids[i] = fork()) == 0)
            be_rank(page, i);
    const int ended = await(page, pids, deadline_ms);
    for (int i = 0; i < SIDES; i++)
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    return tell(page, ended, deadline_ms);
}
