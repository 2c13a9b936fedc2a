/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_uv.c - libuv on a virtual clock: what agent and controller call, each loop in a virtual process
 *
 * Programs are linked with this file instead of -luv. Order of an iteration as documented for libuv 1.44: timers,
 * prepare, wait, check, closed handles. Before each callback the other processes may run, and this one may be
 * killed. Kinder than libuv: a descriptor is read once per iteration; several events of one wait come in an order
 * drawn from the seed. Streams and polls use the kernel's descriptors: pairs of AF_UNIX sockets inside one process
 * are deterministic. uv_fs_event_start() is not supported and fails with UV_ENOSYS.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "tests/sim/virtual_process.h"

enum { ACTIVE = 1, REFERENCED = 2, CLOSING = 4, CLOSED = 8, MARKED = 16, READING = 32, STOPPED = 64, MS = 1000000 };

struct work {
    struct work *next;
    uv_work_t   *req;
    bool         done;
};

struct loop {
    struct loop   *next;        /* of the same process */
    uv_loop_t     *uv;
    uv_handle_t   *handles;     /* by handle_queue[0] */
    struct work   *works;
    struct pollfd *fds;
    size_t         room;
    uint64_t       started;     /* timers */
};

static struct loop *loop_of(const uv_loop_t *uv)
{
    return uv->internal_fields;
}

static uv_handle_t *after(const uv_handle_t *h)
{
    return h->handle_queue[0];
}

/* Other processes may run, and kill this one. */
static void give_way(void)
{
    sim_wait(NULL, NULL, sim_now());
}

/* ---- loops and handles ---- */

static void deliver(struct sim_process *p, int number)
{
    for (struct loop *l = *sim_loops(p); l; l = l->next)
        for (uv_handle_t *h = l->handles; h; h = after(h))
            if (h->type == UV_SIGNAL && (h->flags & ACTIVE) && ((uv_signal_t *)h)->signum == number)
                ((uv_signal_t *)h)->caught_signals++;
}

int uv_loop_init(uv_loop_t *uv)
{
    struct loop *l = calloc(1, sizeof(*l));
    if (!l)
        return UV_ENOMEM;
    memset(uv, 0, sizeof(*uv));
    uv->internal_fields = l;
    l->uv = uv;
    if (sim_current()) {
        void **loops = sim_loops(sim_current());
        l->next = *loops;
        *loops = l;
        sim_signal_hook(deliver);
    }
    uv_update_time(uv);
    return 0;
}

int uv_loop_close(uv_loop_t *uv)
{
    struct loop *l = loop_of(uv);
    if (l->handles || uv->active_reqs.count)
        return UV_EBUSY;
    if (sim_current()) {
        void **at = sim_loops(sim_current());
        while (*at != l)
            at = (void **)&((struct loop *)*at)->next;
        *at = l->next;
    }
    free(l->fds);
    free(l);
    uv->internal_fields = NULL;
    return 0;
}

static int init(uv_loop_t *uv, uv_handle_t *h, uv_handle_type type, size_t size)
{
    void *const data = h->data;
    memset(h, 0, size);
    h->data = data;
    h->loop = uv;
    h->type = type;
    h->flags = REFERENCED;
    uv_handle_t *last = loop_of(uv)->handles;
    while (last && after(last))
        last = after(last);
    if (last)
        last->handle_queue[0] = h;
    else
        loop_of(uv)->handles = h;
    return 0;
}

#define INIT(uv, h, type) init(uv, (uv_handle_t *)(h), type, sizeof(*(h)))

static int set_active(void *handle, bool active)
{
    uv_handle_t *h = handle;
    if (active)
        h->flags |= ACTIVE;
    else
        h->flags &= ~(unsigned)ACTIVE;
    return 0;
}

static bool is_active(const void *handle)
{
    return ((const uv_handle_t *)handle)->flags & ACTIVE;
}

void uv_unref(uv_handle_t *h)
{
    h->flags &= ~(unsigned)REFERENCED;
}

int uv_is_active(const uv_handle_t *h)
{
    return is_active(h);
}

int uv_is_closing(const uv_handle_t *h)
{
    return (h->flags & (CLOSING | CLOSED)) != 0;
}

uint64_t uv_hrtime(void)
{
    return (uint64_t)sim_now();
}

void uv_update_time(uv_loop_t *uv)
{
    uv->time = uv_hrtime() / MS;
}

uint64_t uv_now(const uv_loop_t *uv)
{
    return uv->time;
}

void uv_stop(uv_loop_t *uv)
{
    uv->stop_flag = 1;
}

/* ---- timers, async, prepare, check, signals ---- */

int uv_timer_init(uv_loop_t *uv, uv_timer_t *t)
{
    return INIT(uv, t, UV_TIMER);
}

int uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    if (uv_is_closing((uv_handle_t *)t) || !cb)
        return UV_EINVAL;
    t->timer_cb = cb;
    t->timeout = timeout > UINT64_MAX - t->loop->time ? UINT64_MAX : t->loop->time + timeout;
    t->repeat = repeat;
    t->start_id = loop_of(t->loop)->started++;
    return set_active(t, true);
}

int uv_timer_stop(uv_timer_t *t)
{
    return set_active(t, false);
}

int uv_async_init(uv_loop_t *uv, uv_async_t *a, uv_async_cb cb)
{
    INIT(uv, a, UV_ASYNC);
    a->async_cb = cb;
    return set_active(a, true);
}

int uv_async_send(uv_async_t *a)
{
    a->pending = 1;
    return 0;
}

int uv_prepare_init(uv_loop_t *uv, uv_prepare_t *p)
{
    return INIT(uv, p, UV_PREPARE);
}

int uv_prepare_start(uv_prepare_t *p, uv_prepare_cb cb)
{
    p->prepare_cb = cb;
    return set_active(p, true);
}

int uv_check_init(uv_loop_t *uv, uv_check_t *c)
{
    return INIT(uv, c, UV_CHECK);
}

int uv_check_start(uv_check_t *c, uv_check_cb cb)
{
    c->check_cb = cb;
    return set_active(c, true);
}

int uv_signal_init(uv_loop_t *uv, uv_signal_t *s)
{
    return INIT(uv, s, UV_SIGNAL);
}

int uv_signal_start(uv_signal_t *s, uv_signal_cb cb, int number)
{
    s->signal_cb = cb;
    s->signum = number;
    return set_active(s, true);
}

int uv_signal_stop(uv_signal_t *s)
{
    return set_active(s, false);
}

/* ---- descriptors ---- */

static int set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int uv_poll_init(uv_loop_t *uv, uv_poll_t *p, int fd)
{
    const int rc = set_nonblocking(fd);
    if (rc < 0)
        return rc;
    INIT(uv, p, UV_POLL);
    p->io_watcher.fd = fd;
    return 0;
}

int uv_poll_start(uv_poll_t *p, int events, uv_poll_cb cb)
{
    p->io_watcher.pevents = (unsigned)events;
    p->poll_cb = cb;
    return set_active(p, events != 0);
}

int uv_poll_stop(uv_poll_t *p)
{
    return set_active(p, false);
}

int uv_fs_event_init(uv_loop_t *uv, uv_fs_event_t *f)
{
    return INIT(uv, f, UV_FS_EVENT);
}

int uv_fs_event_start(uv_fs_event_t *f, uv_fs_event_cb cb, const char *path, unsigned flags)
{
    (void)f;
    (void)cb;
    (void)path;
    (void)flags;
    return UV_ENOSYS;
}

int uv_fileno(const uv_handle_t *h, uv_os_fd_t *fd)
{
    *fd = h->type == UV_POLL ? ((const uv_poll_t *)h)->io_watcher.fd : ((const uv_stream_t *)h)->io_watcher.fd;
    return *fd < 0 ? UV_EBADF : 0;
}

/* ---- streams ---- */

static int open_stream(void *stream, int fd)
{
    uv_stream_t *s = stream;
    s->io_watcher.fd = fd;
    return fd < 0 ? 0 : set_nonblocking(fd);
}

int uv_pipe_init(uv_loop_t *uv, uv_pipe_t *p, int ipc)
{
    (void)ipc;
    INIT(uv, p, UV_NAMED_PIPE);
    return open_stream(p, -1);
}

int uv_pipe_open(uv_pipe_t *p, uv_file fd)
{
    return open_stream(p, fd);
}

int uv_tcp_init(uv_loop_t *uv, uv_tcp_t *t)
{
    INIT(uv, t, UV_TCP);
    return open_stream(t, -1);
}

static int need_socket(uv_tcp_t *t, int family)
{
    if (t->io_watcher.fd < 0)
        t->io_watcher.fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return t->io_watcher.fd < 0 ? -errno : 0;
}

static socklen_t size_of(const struct sockaddr *at)
{
    return at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int uv_tcp_bind(uv_tcp_t *t, const struct sockaddr *at, unsigned flags)
{
    const int on = 1, rc = need_socket(t, at->sa_family);
    (void)flags;
    if (rc < 0)
        return rc;
    setsockopt(t->io_watcher.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return bind(t->io_watcher.fd, at, size_of(at)) < 0 ? -errno : 0;
}

int uv_tcp_getsockname(const uv_tcp_t *t, struct sockaddr *at, int *size)
{
    socklen_t n = (socklen_t)*size;
    const int rc = getsockname(t->io_watcher.fd, at, &n);
    *size = (int)n;
    return rc < 0 ? -errno : 0;
}

int uv_tcp_getpeername(const uv_tcp_t *t, struct sockaddr *at, int *size)
{
    socklen_t n = (socklen_t)*size;
    const int rc = getpeername(t->io_watcher.fd, at, &n);
    *size = (int)n;
    return rc < 0 ? -errno : 0;
}

static void request_begins(void *req, uv_req_type type, uv_loop_t *uv)
{
    ((uv_req_t *)req)->type = type;
    uv->active_reqs.count++;
}

int uv_tcp_connect(uv_connect_t *req, uv_tcp_t *t, const struct sockaddr *at, uv_connect_cb cb)
{
    const int rc = need_socket(t, at->sa_family);
    if (rc < 0)
        return rc;
    t->delayed_error = connect(t->io_watcher.fd, at, size_of(at)) < 0 && errno != EINPROGRESS ? -errno : 0;
    request_begins(req, UV_CONNECT, t->loop);
    req->handle = (uv_stream_t *)t;
    req->cb = cb;
    t->connect_req = req;
    return set_active(t, true);
}

int uv_listen(uv_stream_t *s, int backlog, uv_connection_cb cb)
{
    if (listen(s->io_watcher.fd, backlog) < 0)
        return -errno;
    s->connection_cb = cb;
    s->accepted_fd = -1;
    return set_active(s, true);
}

int uv_accept(uv_stream_t *server, uv_stream_t *client)
{
    if (server->accepted_fd < 0)
        return UV_EAGAIN;
    const int rc = open_stream(client, server->accepted_fd);
    server->accepted_fd = -1;
    return rc;
}

int uv_read_start(uv_stream_t *s, uv_alloc_cb alloc, uv_read_cb read)
{
    if (uv_is_closing((uv_handle_t *)s))
        return UV_EINVAL;
    s->alloc_cb = alloc;
    s->read_cb = read;
    s->flags |= READING;
    return set_active(s, true);
}

static void settle_active(uv_stream_t *s)
{
    set_active(s, (s->flags & READING) || s->write_queue[0] || s->write_completed_queue[0] || s->connection_cb ||
                  s->connect_req || s->shutdown_req);
}

int uv_read_stop(uv_stream_t *s)
{
    s->flags &= ~(unsigned)READING;
    settle_active(s);
    return 0;
}

size_t uv_stream_get_write_queue_size(const uv_stream_t *s)
{
    return s->write_queue_size;
}

static void append(void **list, uv_write_t *w)
{
    w->queue[0] = NULL;
    while (*list)
        list = &((uv_write_t *)*list)->queue[0];
    *list = w;
}

/* Of the first request in the queue, as much as the descriptor takes; false: no more now. */
static bool write_some(uv_stream_t *s)
{
    uv_write_t *w = s->write_queue[0];
    while (w && w->write_index < w->nbufs && w->bufs[w->write_index].len == 0)
        w->write_index++;
    if (!w)
        return false;
    ssize_t n = 0;
    if (w->write_index < w->nbufs) {
        uv_buf_t *b = &w->bufs[w->write_index];
        n = send(s->io_watcher.fd, b->base, b->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK)
            n = write(s->io_watcher.fd, b->base, b->len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (n >= 0) {
            b->base += n;
            b->len -= (size_t)n;
            s->write_queue_size -= (size_t)n;
            return true;
        }
        w->error = -errno;
        for (; w->write_index < w->nbufs; w->write_index++)
            s->write_queue_size -= w->bufs[w->write_index].len;
    }
    s->write_queue[0] = w->queue[0];
    append(&s->write_completed_queue[0], w);
    return true;
}

int uv_write(uv_write_t *w, uv_stream_t *s, const uv_buf_t bufs[], unsigned n, uv_write_cb cb)
{
    if (s->io_watcher.fd < 0)
        return UV_EBADF;
    w->bufs = n > sizeof(w->bufsml) / sizeof(w->bufsml[0]) ? calloc(n, sizeof(*bufs)) : w->bufsml;
    if (!w->bufs)
        return UV_ENOMEM;
    memcpy(w->bufs, bufs, n * sizeof(*bufs));
    w->nbufs = n;
    w->write_index = 0;
    w->error = 0;
    w->cb = cb;
    w->handle = s;
    for (unsigned i = 0; i < n; i++)
        s->write_queue_size += bufs[i].len;
    request_begins(w, UV_WRITE, s->loop);
    append(&s->write_queue[0], w);
    while (!s->connect_req && write_some(s))
        ;
    return set_active(s, true);
}

int uv_shutdown(uv_shutdown_t *req, uv_stream_t *s, uv_shutdown_cb cb)
{
    if (s->io_watcher.fd < 0 || s->shutdown_req || uv_is_closing((uv_handle_t *)s))
        return UV_ENOTCONN;
    req->handle = s;
    req->cb = cb;
    s->shutdown_req = req;
    request_begins(req, UV_SHUTDOWN, s->loop);
    return set_active(s, true);
}

static void written(uv_stream_t *s, int error)
{
    uv_write_t *w = s->write_completed_queue[0];
    s->write_completed_queue[0] = w->queue[0];
    s->loop->active_reqs.count--;
    if (w->bufs != w->bufsml)
        free(w->bufs);
    if (w->cb)
        w->cb(w, error ? error : w->error);
}

static void shut_down(uv_stream_t *s, int status)
{
    uv_shutdown_t *req = s->shutdown_req;
    if (!status && shutdown(s->io_watcher.fd, SHUT_WR) < 0)
        status = -errno;
    s->shutdown_req = NULL;
    s->loop->active_reqs.count--;
    if (req->cb)
        req->cb(req, status);
}

static void connected(uv_stream_t *s, int status)
{
    uv_connect_t *req = s->connect_req;
    socklen_t size = sizeof(int);
    int error = 0;
    if (!status)
        status = s->delayed_error;
    if (!status && getsockopt(s->io_watcher.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
        status = -error;
    s->connect_req = NULL;
    s->loop->active_reqs.count--;
    if (req->cb)
        req->cb(req, status);
}

static void read_some(uv_stream_t *s)
{
    uv_buf_t b = { .base = NULL };
    s->alloc_cb((uv_handle_t *)s, 65536, &b);
    if (!b.base || !b.len) {
        s->read_cb(s, UV_ENOBUFS, &b);
        return;
    }
    const ssize_t n = read(s->io_watcher.fd, b.base, b.len);
    const int error = errno;
    if (n > 0) {
        s->read_cb(s, n, &b);
    } else if (n < 0 && (error == EAGAIN || error == EINTR)) {
        s->read_cb(s, 0, &b);
    } else {
        s->flags &= ~(unsigned)READING;
        s->read_cb(s, n < 0 ? -error : UV_EOF, &b);
    }
}

static void accept_one(uv_stream_t *s)
{
    if (s->accepted_fd >= 0)
        return;                         /* the last one was not accepted */
    s->accepted_fd = accept4(s->io_watcher.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s->accepted_fd >= 0 || (errno != EAGAIN && errno != ECONNABORTED))
        s->connection_cb(s, s->accepted_fd < 0 ? -errno : 0);
}

/* One callback, if there is one. */
static void serve_stream(uv_stream_t *s, int events)
{
    if (s->connect_req) {
        if (s->delayed_error || (events & (POLLOUT | POLLERR | POLLHUP)))
            connected(s, 0);
    } else if (s->write_completed_queue[0]) {
        written(s, 0);
    } else if (s->connection_cb) {
        accept_one(s);
    } else if (s->write_queue[0] && (events & (POLLOUT | POLLERR | POLLHUP))) {
        while (write_some(s))
            ;
    } else if (s->shutdown_req && !s->write_queue[0]) {
        shut_down(s, 0);
    } else if ((s->flags & READING) && (events & (POLLIN | POLLERR | POLLHUP))) {
        read_some(s);
    }
    settle_active(s);
}

static bool stream_ready(const uv_stream_t *s)
{
    return s->write_completed_queue[0] || (s->connect_req && s->delayed_error) ||
           (s->shutdown_req && !s->write_queue[0] && !s->connect_req);
}

static short stream_events(const uv_stream_t *s)
{
    short events = 0;
    if ((s->flags & READING) || s->connection_cb)
        events |= POLLIN;
    if (s->connect_req || s->write_queue[0])
        events |= POLLOUT;
    return events;
}

static bool is_stream(const uv_handle_t *h)
{
    return h->type == UV_NAMED_PIPE || h->type == UV_TCP;
}

/* ---- work in other threads ---- */

static void *run_work(void *arg)
{
    struct work *w = arg;
    w->req->work_cb(w->req);
    w->done = true;
    return NULL;
}

int uv_queue_work(uv_loop_t *uv, uv_work_t *req, uv_work_cb work, uv_after_work_cb after_work)
{
    struct work *w = calloc(1, sizeof(*w)), **at = &loop_of(uv)->works;
    if (!w)
        return UV_ENOMEM;
    request_begins(req, UV_WORK, uv);
    req->loop = uv;
    req->work_cb = work;
    req->after_work_cb = after_work;
    w->req = req;
    while (*at)
        at = &(*at)->next;
    *at = w;
    if (!sim_thread_start(run_work, w))
        abort();
    return 0;
}

static struct work *work_done(const struct loop *l)
{
    struct work *w = l->works;
    while (w && !w->done)
        w = w->next;
    return w;
}

static void finish_work(struct loop *l, struct work *w)
{
    struct work **at = &l->works;
    uv_work_t *req = w->req;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
    l->uv->active_reqs.count--;
    if (req->after_work_cb)
        req->after_work_cb(req, 0);
}

/* ---- the wait ---- */

static size_t watch(struct loop *l, size_t n, int fd, short events)
{
    if (n == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->fds = reallocarray(l->fds, l->room, sizeof(*l->fds));
        if (!l->fds)
            abort();
    }
    l->fds[n] = (struct pollfd){ .fd = fd, .events = events };
    return n + 1;
}

static short events_of(const uv_handle_t *h)
{
    if (h->type == UV_POLL) {
        const unsigned e = ((const uv_poll_t *)h)->io_watcher.pevents;
        return (short)((e & UV_READABLE ? POLLIN : 0) | (e & UV_WRITABLE ? POLLOUT : 0) |
                       (e & UV_DISCONNECT ? POLLRDHUP : 0));
    }
    return is_stream(h) ? stream_events((const uv_stream_t *)h) : 0;
}

static int fd_of(const uv_handle_t *h)
{
    uv_os_fd_t fd;
    return uv_fileno(h, &fd) < 0 ? -1 : fd;
}

/* Asks the kernel for all descriptors of the loop; how many have something. */
static int poll_all(struct loop *l)
{
    size_t n = 0;
    for (const uv_handle_t *h = l->handles; h; h = after(h))
        if (is_active(h) && events_of(h) && fd_of(h) >= 0)
            n = watch(l, n, fd_of(h), events_of(h));
    return n ? poll(l->fds, n, 0) : 0;
}

static bool has_event(const uv_handle_t *h)
{
    if (!is_active(h))
        return false;
    if (h->type == UV_ASYNC)
        return ((const uv_async_t *)h)->pending;
    if (h->type == UV_SIGNAL)
        return ((const uv_signal_t *)h)->caught_signals > 0;
    return is_stream(h) && stream_ready((const uv_stream_t *)h);
}

static bool loop_ready(void *arg)
{
    struct loop *l = arg;
    for (const uv_handle_t *h = l->handles; h; h = after(h))
        if (has_event(h))
            return true;
    return work_done(l) || poll_all(l) > 0;
}

static void serve(uv_handle_t *h, int events)
{
    if (h->type == UV_ASYNC) {
        ((uv_async_t *)h)->pending = 0;
        ((uv_async_t *)h)->async_cb((uv_async_t *)h);
    } else if (h->type == UV_SIGNAL) {
        uv_signal_t *s = (uv_signal_t *)h;
        s->caught_signals--;
        s->signal_cb(s, s->signum);
    } else if (h->type == UV_POLL) {
        uv_poll_t *p = (uv_poll_t *)h;
        const int bits = (events & (POLLIN | POLLERR | POLLHUP) ? UV_READABLE : 0) |
                         (events & (POLLOUT | POLLERR | POLLHUP) ? UV_WRITABLE : 0) |
                         (events & (POLLRDHUP | POLLHUP) ? UV_DISCONNECT : 0);
        p->poll_cb(p, events & POLLNVAL ? UV_EBADF : 0, bits & (int)p->io_watcher.pevents);
    } else {
        serve_stream((uv_stream_t *)h, events);
    }
}

static unsigned mark_ready(struct loop *l)
{
    unsigned marked = 0;
    size_t n = 0;
    poll_all(l);
    for (uv_handle_t *h = l->handles; h; h = after(h)) {
        int events = 0;
        if (is_active(h) && events_of(h) && fd_of(h) >= 0)
            events = l->fds[n++].revents;
        h->u.reserved[3] = (void *)(uintptr_t)(unsigned)events;
        if (events || has_event(h)) {
            h->flags |= MARKED;
            marked++;
        }
    }
    return marked;
}

static uv_handle_t *draw_marked(const struct loop *l, unsigned marked)
{
    uint64_t skip = marked > 1 ? sim_chance() % marked : 0;
    for (uv_handle_t *h = l->handles; h; h = after(h))
        if ((h->flags & MARKED) && skip-- == 0)
            return h;
    return NULL;
}

static void serve_all(struct loop *l)
{
    for (struct work *w; (w = work_done(l));) {
        give_way();
        finish_work(l, w);
    }
    for (unsigned marked = mark_ready(l); marked > 0; marked--) {
        uv_handle_t *h = draw_marked(l, marked);
        h->flags &= ~(unsigned)MARKED;
        give_way();
        if (is_active(h))
            serve(h, (int)(unsigned)(uintptr_t)h->u.reserved[3]);
    }
}

/* ---- the loop ---- */

static uv_timer_t *first_timer(const struct loop *l)
{
    uv_timer_t *first = NULL;
    for (uv_handle_t *h = l->handles; h; h = after(h)) {
        uv_timer_t *t = (uv_timer_t *)h;
        if (h->type != UV_TIMER || !is_active(h))
            continue;
        if (!first || t->timeout < first->timeout || (t->timeout == first->timeout && t->start_id < first->start_id))
            first = t;
    }
    return first;
}

static void run_timers(struct loop *l)
{
    for (uv_timer_t *t; (t = first_timer(l)) && t->timeout <= l->uv->time;) {
        give_way();
        uv_timer_stop(t);
        if (t->repeat)
            uv_timer_start(t, t->timer_cb, t->repeat, t->repeat);
        t->timer_cb(t);
    }
}

/* Writes that were done at once. */
static void run_pending(const struct loop *l)
{
    for (uv_handle_t *h = l->handles; h; h = after(h)) {
        uv_stream_t *s = (uv_stream_t *)h;
        while (is_stream(h) && is_active(h) && s->write_completed_queue[0]) {
            give_way();
            written(s, 0);
            settle_active(s);
        }
    }
}

static void run_hooks(const struct loop *l, uv_handle_type type)
{
    for (uv_handle_t *h = l->handles; h; h = after(h)) {
        if (h->type != type || !is_active(h))
            continue;
        give_way();
        if (type == UV_PREPARE)
            ((uv_prepare_t *)h)->prepare_cb((uv_prepare_t *)h);
        else
            ((uv_check_t *)h)->check_cb((uv_check_t *)h);
    }
}

static bool closes(const struct loop *l)
{
    const uv_handle_t *h = l->handles;
    while (h && !(h->flags & CLOSING))
        h = after(h);
    return h != NULL;
}

static bool loop_alive(const struct loop *l)
{
    const uv_handle_t *h = l->handles;
    while (h && !((h->flags & ACTIVE) && (h->flags & REFERENCED)))
        h = after(h);
    return h || l->uv->active_reqs.count || closes(l);
}

static void destroy_stream(uv_stream_t *s)
{
    if (s->connect_req)
        connected(s, UV_ECANCELED);
    while (s->write_queue[0]) {
        uv_write_t *w = s->write_queue[0];
        s->write_queue[0] = w->queue[0];
        w->error = UV_ECANCELED;
        append(&s->write_completed_queue[0], w);
    }
    while (s->write_completed_queue[0])
        written(s, 0);
    if (s->shutdown_req)
        shut_down(s, UV_ECANCELED);
}

void uv_close(uv_handle_t *h, uv_close_cb cb)
{
    if (uv_is_closing(h))
        abort();
    h->close_cb = cb;
    h->flags |= CLOSING;
    set_active(h, false);
    if (!is_stream(h))
        return;
    uv_stream_t *s = (uv_stream_t *)h;
    s->flags &= ~(unsigned)READING;
    if (s->io_watcher.fd >= 0)
        close(s->io_watcher.fd);
    if (s->connection_cb && s->accepted_fd >= 0)
        close(s->accepted_fd);
    s->io_watcher.fd = -1;
}

/* Those that were closed before this phase; the last closed one first, as libuv does. */
static void run_closed(struct loop *l)
{
    for (uv_handle_t *h = l->handles; h; h = after(h))
        if (h->flags & CLOSING)
            h->flags |= MARKED;
    for (;;) {
        uv_handle_t **last = NULL;
        for (uv_handle_t **at = &l->handles; *at; at = (uv_handle_t **)&(*at)->handle_queue[0])
            if (((*at)->flags & (CLOSING | MARKED)) == (CLOSING | MARKED))
                last = at;
        if (!last)
            return;
        give_way();
        uv_handle_t *h = *last;
        *last = after(h);
        h->flags = (h->flags & ~(unsigned)(CLOSING | MARKED)) | CLOSED;
        if (is_stream(h))
            destroy_stream((uv_stream_t *)h);
        if (h->close_cb)
            h->close_cb(h);
    }
}

/* Until the next timer, unless there is something else to do. */
static int64_t wait_end(const struct loop *l, uv_run_mode mode)
{
    const uv_timer_t *t = first_timer(l);
    if (mode == UV_RUN_NOWAIT || l->uv->stop_flag || !loop_alive(l) || closes(l))
        return sim_now();
    return t && t->timeout < INT64_MAX / MS ? (int64_t)t->timeout * MS : INT64_MAX;
}

int uv_run(uv_loop_t *uv, uv_run_mode mode)
{
    struct loop *l = loop_of(uv);
    bool alive = loop_alive(l);
    if (!alive)
        uv_update_time(uv);
    while (alive && !uv->stop_flag) {
        uv_update_time(uv);
        run_timers(l);
        run_pending(l);
        run_hooks(l, UV_PREPARE);
        sim_wait(loop_ready, l, wait_end(l, mode));
        uv_update_time(uv);
        serve_all(l);
        run_hooks(l, UV_CHECK);
        run_closed(l);
        if (mode == UV_RUN_ONCE) {
            uv_update_time(uv);
            run_timers(l);
        }
        alive = loop_alive(l);
        if (mode != UV_RUN_DEFAULT)
            break;
    }
    uv->stop_flag = 0;
    return alive;
}

/* ---- the rest ---- */

uv_buf_t uv_buf_init(char *base, unsigned size)
{
    return (uv_buf_t){ .base = base, .len = size };
}

const char *uv_strerror(int error)
{
    return error == UV_EOF ? "end of file" : strerror(-error);
}

int uv_random(uv_loop_t *uv, uv_random_t *req, void *out, size_t size, unsigned flags, uv_random_cb cb)
{
    (void)flags;
    if (uv || req || cb)
        return UV_ENOSYS;
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)out)[i] = (unsigned char)sim_chance();
    return 0;
}

int uv_resident_set_memory(size_t *bytes)
{
    *bytes = 1 << 26;
    return 0;
}

/* One interface, the loopback. */
int uv_interface_addresses(uv_interface_address_t **list, int *n)
{
    uv_interface_address_t *one = calloc(1, sizeof(*one));
    if (!one)
        return UV_ENOMEM;
    one->name = (char *)(uintptr_t)"lo";
    one->is_internal = 1;
    one->address.address4.sin_family = AF_INET;
    one->address.address4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *list = one;
    *n = 1;
    return 0;
}

void uv_free_interface_addresses(uv_interface_address_t *list, int n)
{
    (void)n;
    free(list);
}
