/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.c - see shm_segment.h */
#include "engine/dist/shm_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"

#define SHM_SEGMENT_MAGIC UINT64_C(0x326567617074736A) /* "jstpage2" */
enum { SLOTS = 4, HELLO_MS = 200 };

/* A rank's hello to rank 0. */
struct hello {
    uint64_t magic, key;
    int32_t  rank, world;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* --- creating --------------------------------------------------------------------------- */

static void init_slot(struct shm_slot *s)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->life, &a);
    pthread_mutexattr_destroy(&a);
}

static size_t align(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Data from a rank to one other per round. Large, so that there are few rounds; but the data in
 * use at a time should fit into a processor's caches, and all windows in some 64 MiB. */
static size_t chunk_for(size_t world)
{
    size_t chunk = (1 << 20) / world, most = (16 << 20) / (world * world);
    chunk = chunk < most ? chunk : most;
    return align(chunk > 4096 ? chunk : 4096, DIST_UNIT);
}

static int make_page(struct shm_segment_hold *h, int *fd, struct err *err)
{
    size_t world = (size_t)h->world;
    size_t chunk = chunk_for(world);
    size_t head = align(sizeof(struct shm_segment) + world * sizeof(struct shm_slot), 4096);
    size_t slot = SLOTS * (world + 1) * chunk; /* one area per other rank, and one for results */
    size_t bytes = head + world * slot;
    *fd = memfd_create("jobctl-ranks", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) < 0)
        return err_set_errno(err, errno, "cannot make %zu bytes of shared memory", bytes);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (at == MAP_FAILED)
        return err_set_errno(err, errno, "cannot map %zu bytes of shared memory", bytes);
    struct shm_segment *p = at;
    p->magic = SHM_SEGMENT_MAGIC;
    p->world = (uint32_t)world;
    p->slots = SLOTS;
    p->chunk = chunk;
    p->slot_bytes = slot;
    p->windows = head;
    p->bytes = bytes;
    for (size_t i = 0; i < world; i++)
        init_slot(&p->slot[i]);
    h->page = p;
    h->bytes = bytes;
    return 0;
}

static void take_slot(struct shm_segment_hold *h)
{
    struct shm_slot *s = &h->page->slot[h->rank];
    pthread_mutex_lock(&s->life);
    s->pid = (int32_t)getpid();
    h->has_slot = true;
    atomic_store(&s->state, SHM_SLOT_TAKEN);
}

/* --- connecting ------------------------------------------------------------------------- */

/* An abstract name: its first byte is 0. */
static socklen_t address_of(struct sockaddr_un *a, const struct shm_segment_hold *h)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(h->address);
    memcpy(a->sun_path + 1, h->address, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static bool same_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

int shm_segment_begin(struct shm_segment_hold *h, int rank, int world, const char *name, struct err *err)
{
    struct sockaddr_un a;
    *h = (struct shm_segment_hold){.rank = rank, .world = world, .listener = -1, .line = -1};
    h->key = digest_word(name, strlen(name), (uint64_t)world);
    snprintf(h->address, sizeof(h->address), "jobctl-ranks-%016llx", (unsigned long long)h->key);
    if (rank != 0)
        return 0;
    socklen_t size = address_of(&a, h);
    h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->listener < 0)
        return err_set_errno(err, errno, "cannot make a socket");
    if (bind(h->listener, (struct sockaddr *)&a, size) < 0 || listen(h->listener, 128) < 0) {
        int why = errno;
        close_fd(&h->listener);
        return why == EADDRINUSE
                   ? err_set(err, ERR_CONFLICT,
                             "another rank 0 of the same job, attempt and generation runs on this "
                             "machine (%.80s): end it first",
                             name)
                   : err_set_errno(err, why, "cannot listen for the other ranks");
    }
    return 0;
}

static int send_page(int line, int fd)
{
    struct hello ok = {.magic = SHM_SEGMENT_MAGIC};
    struct iovec io = {&ok, sizeof(ok)};
    union {
        char           bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    return sendmsg(line, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(ok) ? 0 : -1;
}

/* A foreign or silent peer is disconnected without an answer. */
static void welcome(struct shm_segment_hold *h, int line, int fd)
{
    struct hello in;
    struct pollfd p = {.fd = line, .events = POLLIN};
    if (same_user(line) && poll(&p, 1, HELLO_MS) == 1 &&
        recv(line, &in, sizeof(in), 0) == (ssize_t)sizeof(in) && in.magic == SHM_SEGMENT_MAGIC &&
        in.key == h->key && in.world == h->world && in.rank > 0 && in.rank < h->world &&
        atomic_load(&h->page->slot[in.rank].state) == SHM_SLOT_EMPTY)
        send_page(line, fd);
}

/* Each rank gets a new open file description of the mapping's file, kept in `line`. */
static int serve(struct shm_segment_hold *h, struct err *err)
{
    int line;
    if (!h->page) {
        if (make_page(h, &h->line, err) < 0)
            return -1;
        take_slot(h);
    }
    while ((line = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        welcome(h, line, h->line);
        close(line);
    }
    return 0;
}

static int call_rank0(struct shm_segment_hold *h, struct err *err)
{
    struct sockaddr_un a;
    socklen_t size = address_of(&a, h);
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (line < 0)
        return err_set_errno(err, errno, "cannot make a socket");
    if (connect(line, (struct sockaddr *)&a, size) < 0) {
        close(line); /* rank 0 does not listen yet */
        return 0;
    }
    struct hello me = {SHM_SEGMENT_MAGIC, h->key, h->rank, h->world};
    if (!same_user(line)) {
        close(line);
        return err_set(err, ERR_SYSTEM, "another user's process holds the name of the socket");
    }
    if (send(line, &me, sizeof(me), MSG_NOSIGNAL) != (ssize_t)sizeof(me)) {
        close(line);
        return 0;
    }
    h->line = line;
    return 0;
}

static int map_page(struct shm_segment_hold *h, int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (size_t)st.st_size < sizeof(struct shm_segment))
        return err_set(err, ERR_SYSTEM, "this rank and rank 0 run different versions of jobctl-train");
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_set_errno(err, errno, "cannot map shared memory");
    struct shm_segment *p = at;
    if (p->magic != SHM_SEGMENT_MAGIC || p->world != (uint32_t)h->world ||
        p->bytes != (uint64_t)st.st_size) {
        munmap(at, (size_t)st.st_size);
        return err_set(err, ERR_SYSTEM, "this rank and rank 0 run different versions of jobctl-train");
    }
    h->page = p;
    h->bytes = (size_t)st.st_size;
    return 0;
}

/* Reads the answer to the hello, if it has arrived. A connection that ends without one is
 * retried. */
static int hear_rank0(struct shm_segment_hold *h, struct err *err)
{
    struct hello ok;
    struct iovec io = {&ok, sizeof(ok)};
    union {
        char           bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(h->line, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    struct cmsghdr *c = n == (ssize_t)sizeof(ok) ? CMSG_FIRSTHDR(&m) : NULL;
    close_fd(&h->line);
    if (!c || c->cmsg_type != SCM_RIGHTS)
        return 0;
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    int rc = map_page(h, fd, err);
    close(fd);
    if (rc == 0)
        take_slot(h);
    return rc;
}

int shm_segment_poll(struct shm_segment_hold *h, struct err *err)
{
    if (h->rank == 0) {
        if (serve(h, err) < 0)
            return -1;
    } else if (!h->page) {
        if (h->line < 0 && call_rank0(h, err) < 0)
            return -1;
        if (h->line >= 0 && hear_rank0(h, err) < 0)
            return -1;
        if (!h->page)
            return 0;
    }
    for (int i = 0; i < h->world; i++)
        if (atomic_load(&h->page->slot[i].state) == SHM_SLOT_EMPTY)
            return 0;
    close_fd(&h->listener);
    close_fd(&h->line);
    return 1;
}

void shm_segment_leave(struct shm_segment_hold *h)
{
    close_fd(&h->listener);
    close_fd(&h->line);
    if (!h->page)
        return;
    if (h->has_slot) {
        atomic_store(&h->page->slot[h->rank].state, SHM_SLOT_LEFT);
        shm_segment_ring(h);
        pthread_mutex_unlock(&h->page->slot[h->rank].life);
    }
    munmap(h->page, h->bytes);
    h->page = NULL;
}

/* --- signalling ------------------------------------------------------------------------- */

static void futex_wake(_Atomic uint32_t *at)
{
    syscall(SYS_futex, at, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wake(struct shm_slot *s)
{
    if (!atomic_load(&s->sleeping))
        return;
    atomic_fetch_add(&s->bell, 1);
    futex_wake(&s->bell);
}

void shm_segment_ring(struct shm_segment_hold *h)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < h->world; i++)
        if (i != h->rank)
            wake(&h->page->slot[i]);
}

void shm_segment_sleep(struct shm_segment_hold *h, bool (*idle)(void *arg), void *arg, int64_t ns)
{
    struct shm_slot *s = &h->page->slot[h->rank];
    struct timespec most = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    atomic_store(&s->sleeping, 1);
    uint32_t before = atomic_load(&s->bell);
    atomic_thread_fence(memory_order_seq_cst);
    if (idle(arg))
        syscall(SYS_futex, &s->bell, FUTEX_WAIT, before, &most, NULL, 0);
    atomic_store(&s->sleeping, 0);
}

struct dist_fault shm_segment_fault(const struct shm_segment *p)
{
    return dist_unpack(atomic_load_explicit(&p->fault, memory_order_relaxed));
}

struct dist_fault shm_segment_raise(struct shm_segment *p, struct dist_fault f)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&p->fault, &none, dist_pack(f));
    for (uint32_t i = 0; i < p->world; i++) {
        atomic_fetch_add(&p->slot[i].bell, 1);
        futex_wake(&p->slot[i].bell);
    }
    return shm_segment_fault(p);
}

enum shm_slot_state shm_segment_state(struct shm_segment *p, int rank)
{
    struct shm_slot *s = &p->slot[rank];
    uint32_t state = atomic_load(&s->state);
    if (state != SHM_SLOT_TAKEN)
        return (enum shm_slot_state)state;
    int rc = pthread_mutex_trylock(&s->life);
    if (rc == EBUSY)
        return SHM_SLOT_TAKEN;
    if (rc == EOWNERDEAD || rc == ENOTRECOVERABLE) {
        atomic_store(&s->state, SHM_SLOT_DEAD);
        if (rc == EOWNERDEAD)
            pthread_mutex_unlock(&s->life); /* not made consistent: the owner stays dead for all */
        return SHM_SLOT_DEAD;
    }
    pthread_mutex_unlock(&s->life);
    state = atomic_load(&s->state);
    return state == SHM_SLOT_TAKEN ? SHM_SLOT_LEFT : (enum shm_slot_state)state;
}
