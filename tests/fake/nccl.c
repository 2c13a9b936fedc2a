/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - a stand-in for libnccl.so.2: real sums between processes, and its failures on demand
 *
 * Works on ordinary memory.  Ranks communicate through a memfd of rank 0's process, whose /proc path is the unique id,
 * so nothing is left behind.  A thread of each communicator does the collectives.  Beside the stand-in of
 * CUDA (tests/cuda_cpu/streams.cc) one begins when its stream comes to it, and is "in progress" only until
 * it is in the stream; elsewhere it begins at once, and is in progress until it is done.
 *
 * Of what NCCL's guide says of communicators ("Creating a Communicator", "Fault Tolerance", "Communicator Creation and
 * Management Functions") this is imitated:
 *   - a collective whose peer has died is never done, and nobody says so;
 *   - an error on the way is known to ncclCommGetAsyncError() alone; what is asked for after it is never done;
 *   - a call while the last one is in progress is wrong usage;
 *   - ncclCommFinalize() and ncclCommDestroy() block until all collectives are done; the guide says that the first one
 *     does not, for a communicator that is not blocking;
 *   - ncclCommAbort(), from any thread, ends what is not done, and frees who is inside a call.
 * This is not: errors that a transport reports of a dead peer (over shared memory and NVLink there are none), waiting for
 * other ranks in ncclCommDestroy(), splitting, registered buffers, several communicators in a process.
 *
 * FAKE_NCCL holds words, separated by blanks:
 *   version:21703      what ncclGetVersion() says
 *   late:R:MS          rank R comes to the beginning MS milliseconds late
 *   endless            the beginning never ends
 *   async:N            after N collectives a remote error, asynchronously
 *   hang:R:N           rank R never does collective N (the first one is 1)
 *   block:R:N          its call of collective N does not return, until aborted
 *   wrong:R:N          the result of collective N is wrong on rank R
 *   stuck              ncclCommAbort() never returns
 *   p2p                all of it only while NCCL_P2P_DISABLE is not 1
 * FAKE_NCCL_LOG: a file to which each collective is appended as it is asked for, a group as its first.
 * With FAKE_NCCL_OLD defined some functions are missing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/dist/nccl.h"

enum { RANKS = 8, AREA = 64 << 20, QUEUE = 1024, INTERNAL = 3 };

struct shared {
    _Atomic int      came;
    _Atomic uint64_t put[RANKS], got[RANKS]; /* collectives of which that is done */
    char             area[RANKS][AREA];
};

enum kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER };

struct call {
    enum kind   kind;
    const void *from;
    void       *to;
    size_t      n;
    int         type, op, root;
    void       *stream;
};

struct comm {
    int             rank, world, async;
    struct shared  *s;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  news;
    struct call     queue[QUEUE];
    uint64_t        begun, done;
    uint64_t        open;   /* collectives that their stream has come to */
    atomic_bool     aborted;
    bool            leaving;
    bool            queued; /* it has been in a stream, which may still name it */
};

/* A place in a stream: the collectives up to `seq`. */
struct ticket {
    struct comm *c;
    uint64_t     seq;
};

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(void *comm);
int ncclGetUniqueId(struct nccl_id *id);
int ncclCommInitRankConfig(void **out, int world, struct nccl_id id, int rank, struct nccl_config *config);
int ncclCommGetAsyncError(void *comm, int *result);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, void *s);
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, void *comm, void *s);
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, void *comm, void *s);
int ncclReduceScatter(const void *from, void *to, size_t each, int type, int op, void *comm, void *s);
int ncclAllGather(const void *from, void *to, size_t each, int type, void *comm, void *s);

static bool is_broken(const struct comm *c)
{
    return c->async != NCCL_SUCCESS && c->async != NCCL_IN_PROGRESS;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* "word", "word:A" or "word:A:B" among those of FAKE_NCCL. */
static bool asked(const char *word, long *a, long *b)
{
    const char *all = getenv("FAKE_NCCL"), *off = getenv("NCCL_P2P_DISABLE");
    size_t n = strlen(word);
    if (all && strstr(all, "p2p") && off && strcmp(off, "1") == 0)
        return false;
    for (const char *at = all; at && *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (strncmp(at, word, n) != 0 || (at[n] != ':' && at[n] != ' ' && at[n] != '\0'))
            continue;
        *a = *b = 0;
        sscanf(at + n, ":%ld:%ld", a, b);
        return true;
    }
    return false;
}

/* --- numbers ----------------------------------------------------------------------------- */

static size_t size_of(int type)
{
    return type == NCCL_UINT8 ? 1 : type == NCCL_FLOAT32 ? 4 : 8;
}

static void add_up(void *to, const void *x, size_t n, int type, int op)
{
#define LOOP(t)                                                            \
    for (size_t i = 0; i < n; i++) {                                       \
        t *a = &((t *)to)[i], b = ((const t *)x)[i];                       \
        *a = op == NCCL_SUM ? (t)(*a + b) : *a > b ? *a : b;               \
    }
    if (type == NCCL_FLOAT32)
        LOOP(float)
    else if (type == NCCL_FLOAT64)
        LOOP(double)
    else if (type == NCCL_INT64)
        LOOP(int64_t)
}

static bool wait_for(struct comm *c, _Atomic uint64_t *of, uint64_t n)
{
    for (int i = 0; i < c->world; i++)
        while (atomic_load(&of[i]) < n) {
            if (atomic_load(&c->aborted))
                return false;
            nap();
        }
    return true;
}

static void compute(struct comm *c, const struct call *k)
{
    size_t size = size_of(k->type), each = k->n * size;
    if (k->kind == BROADCAST) {
        memmove(k->to, c->s->area[k->root], each);
        return;
    }
    if (k->kind == ALL_GATHER) {
        for (int i = 0; i < c->world; i++)
            memmove((char *)k->to + each * (size_t)i, c->s->area[i], each);
        return;
    }
    if (k->kind == REDUCE && k->root != c->rank)
        return;
    size_t at = k->kind == REDUCE_SCATTER ? each * (size_t)c->rank : 0;
    memcpy(k->to, c->s->area[0] + at, each);
    for (int i = 1; i < c->world; i++)
        add_up(k->to, c->s->area[i] + at, k->n, k->type, k->op);
}

static bool do_call(struct comm *c, const struct call *k, uint64_t seq)
{
    long who, n;
    size_t size = size_of(k->type) * k->n * (size_t)(k->kind == REDUCE_SCATTER ? c->world : 1);
    if (asked("hang", &who, &n) && who == c->rank && n == (long)seq) {
        while (!atomic_load(&c->aborted))
            nap();
        return false;
    }
    if (!wait_for(c, c->s->got, seq - 1))
        return false;
    memcpy(c->s->area[c->rank], k->from, size);
    atomic_store(&c->s->put[c->rank], seq);
    if (!wait_for(c, c->s->put, seq))
        return false;
    compute(c, k);
    if (asked("wrong", &who, &n) && who == c->rank && n == (long)seq)
        *(char *)k->to ^= 1;
    atomic_store(&c->s->got[c->rank], seq);
    return true;
}

/* --- streams ------------------------------------------------------------------------------ */

/* 1 when it is done. */
static int step(void *arg)
{
    struct ticket *t = arg;
    struct comm *c = t->c;
    pthread_mutex_lock(&c->lock);
    c->open = t->seq > c->open ? t->seq : c->open;
    const bool done = c->done >= t->seq || atomic_load(&c->aborted);
    pthread_cond_signal(&c->news);
    pthread_mutex_unlock(&c->lock);
    if (done)
        free(t);
    return done;
}

/* Behind what is in the stream of the newest collective, with the lock held; where streams are only names, at once. */
static void enter_stream(struct comm *c, void *stream)
{
    void (*enqueue)(void *, int (*)(void *), void *) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "cuda_cpu_enqueue");
    struct ticket *t = malloc(sizeof(*t));
    memcpy(&enqueue, &symbol, sizeof(enqueue));
    if (!enqueue || !t) {
        free(t);
        c->open = c->begun;
        c->async = is_broken(c) ? c->async : NCCL_IN_PROGRESS;
        return;
    }
    *t = (struct ticket){c, c->begun};
    c->queued = true;
    pthread_mutex_unlock(&c->lock);     /* step() takes it, perhaps at once */
    enqueue(stream, step, t);
    pthread_mutex_lock(&c->lock);
}

/* --- a communicator's thread ------------------------------------------------------------- */

static void come(struct comm *c)
{
    long who, ms;
    if (asked("late", &who, &ms) && who == c->rank)
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    atomic_fetch_add(&c->s->came, 1);
    while (!atomic_load(&c->aborted) &&
           (atomic_load(&c->s->came) < c->world || asked("endless", &who, &ms)))
        nap();
}

/* Nothing, for now or for ever; with the lock held. */
static bool has_nothing_to_do(const struct comm *c)
{
    return c->done == c->open || is_broken(c);
}

static void *work(void *arg)
{
    struct comm *c = arg;
    long after, none;
    come(c);
    pthread_mutex_lock(&c->lock);
    c->async = NCCL_SUCCESS;
    for (;;) {
        while (has_nothing_to_do(c) && !(c->leaving && c->done == c->begun) && !atomic_load(&c->aborted))
            pthread_cond_wait(&c->news, &c->lock);
        if (has_nothing_to_do(c) || atomic_load(&c->aborted))
            break;
        struct call k = c->queue[c->done % QUEUE];
        uint64_t seq = c->done + 1;
        pthread_mutex_unlock(&c->lock);
        bool ok = do_call(c, &k, seq);
        pthread_mutex_lock(&c->lock);
        c->done += ok;
        if (ok && c->done == c->begun && c->async == NCCL_IN_PROGRESS)
            c->async = NCCL_SUCCESS;
        if (asked("async", &after, &none) && c->done >= (uint64_t)after)
            c->async = NCCL_REMOTE_ERROR;
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void note(const struct call *k)
{
    static const char *const names[] = {"all_reduce", "reduce", "broadcast", "reduce_scatter",
                                        "all_gather"};
    const char *log = getenv("FAKE_NCCL_LOG");
    FILE *f = log ? fopen(log, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s of %zu\n", names[k->kind], k->n);
    fclose(f);
}

static int begin(struct call k, void *comm)
{
    struct comm *c = comm;
    long who, n;
    note(&k);
    pthread_mutex_lock(&c->lock);
    const int rc = c->async == NCCL_IN_PROGRESS ? NCCL_INVALID_USAGE : NCCL_IN_PROGRESS;
    if (rc == NCCL_IN_PROGRESS) {
        c->queue[c->begun++ % QUEUE] = k;
        enter_stream(c, k.stream);
        pthread_cond_signal(&c->news);
    }
    uint64_t seq = c->begun;
    pthread_mutex_unlock(&c->lock);
    while (asked("block", &who, &n) && who == c->rank && n == (long)seq &&
           !atomic_load(&c->aborted))
        nap();
    return rc;
}

/* --- groups: collected, then begun at once ----------------------------------------------- */

static __thread struct call group[QUEUE];
static __thread void       *group_comm;
static __thread int         group_n, group_depth;

static int add(struct call k, void *comm)
{
    if (group_depth == 0)
        return begin(k, comm);
    group[group_n++] = k;
    group_comm = comm;
    return NCCL_SUCCESS;
}

int ncclGroupStart(void)
{
    group_depth++;
    return NCCL_SUCCESS;
}

int ncclGroupEnd(void)
{
    struct comm *c = group_comm;
    int n = group_n;
    group_depth--;
    group_n = 0;
    if (n == 0)
        return NCCL_SUCCESS;
    note(&group[0]);
    pthread_mutex_lock(&c->lock);
    const int rc = c->async == NCCL_IN_PROGRESS ? NCCL_INVALID_USAGE : NCCL_IN_PROGRESS;
    for (int i = 0; rc == NCCL_IN_PROGRESS && i < n; i++)
        c->queue[c->begun++ % QUEUE] = group[i];
    if (rc == NCCL_IN_PROGRESS)
        enter_stream(c, group[0].stream);
    pthread_cond_signal(&c->news);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* --- NCCL's functions -------------------------------------------------------------------- */

int ncclGetVersion(int *version)
{
    long v, none;
    *version = asked("version", &v, &none) ? (int)v : 22809;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
           : result == NCCL_INVALID_USAGE ? "invalid usage" : "some error";
}

int ncclGetUniqueId(struct nccl_id *id)
{
    int fd = memfd_create("fake-nccl", 0);
    memset(id, 0, sizeof(*id));
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
        return INTERNAL;
    snprintf(id->bytes, sizeof(id->bytes), "/proc/%d/fd/%d", (int)getpid(), fd);
    return NCCL_SUCCESS;
}

int ncclCommGetAsyncError(void *comm, int *result)
{
    struct comm *c = comm;
    pthread_mutex_lock(&c->lock);
    *result = c->async;
    pthread_mutex_unlock(&c->lock);
    return NCCL_SUCCESS;
}

int ncclCommFinalize(void *comm)
{
    struct comm *c = comm;
    bool done = false;
    while (!done) {
        pthread_mutex_lock(&c->lock);
        done = c->done == c->begun;
        pthread_mutex_unlock(&c->lock);
        nap();
    }
    int rc;
    ncclCommGetAsyncError(comm, &rc);
    return rc;
}

static int end(struct comm *c, bool abort_it)
{
    pthread_mutex_lock(&c->lock);
    c->leaving = true;
    if (abort_it)
        atomic_store(&c->aborted, true);
    pthread_cond_signal(&c->news);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    munmap(c->s, sizeof(*c->s));
    if (!abort_it && !c->queued) /* after an abort the caller may still be inside one of our functions */
        free(c);
    return NCCL_SUCCESS;
}

int ncclCommDestroy(void *comm)
{
    return end(comm, false);
}

int ncclCommAbort(void *comm)
{
    long a, b;
    while (asked("stuck", &a, &b))
        nap();
    return end(comm, true);
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, void *s)
{
    return add((struct call){ALL_REDUCE, from, to, n, type, op, 0, s}, comm);
}

int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, void *comm, void *s)
{
    return add((struct call){REDUCE, from, to, n, type, op, root, s}, comm);
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, void *comm, void *s)
{
    return add((struct call){BROADCAST, from, to, n, type, NCCL_SUM, root, s}, comm);
}

int ncclReduceScatter(const void *from, void *to, size_t each, int type, int op, void *comm, void *s)
{
    return add((struct call){REDUCE_SCATTER, from, to, each, type, op, 0, s}, comm);
}

int ncclAllGather(const void *from, void *to, size_t each, int type, void *comm, void *s)
{
    return add((struct call){ALL_GATHER, from, to, each, type, NCCL_SUM, 0, s}, comm);
}

#ifndef FAKE_NCCL_OLD
const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return "fake_net.c:7 connection reset";
}

int ncclCommInitRankConfig(void **out, int world, struct nccl_id id, int rank, struct nccl_config *config)
{
    if (config->size != sizeof(*config) || config->magic != 0xcafebeef || config->blocking != 0)
        return NCCL_INVALID_USAGE;
    struct comm *c = calloc(1, sizeof(*c));
    int fd = open(id.bytes, O_RDWR);
    if (!c || fd < 0 || world > RANKS)
        return INTERNAL;
    c->s = mmap(NULL, sizeof(*c->s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    c->rank = rank;
    c->world = world;
    c->async = NCCL_IN_PROGRESS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->news, NULL);
    pthread_create(&c->thread, NULL, work, c);
    *out = c;
    return NCCL_IN_PROGRESS;
}
#endif
