/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - see relay.h */
#include "agent/wire/relay.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"

/* Reading from the socket pauses while this much is queued for the network. */
enum { QUEUE_BYTES = 1024 * 1024, LOOK_MS = 20 };

struct relay {
    struct tls_psk *tls;
    uv_pipe_t       pipe;
    uv_timer_t relief; /* polls until the queue has shrunk */
    uv_shutdown_t   shutdown;
    int             handles;
    bool            over;
    relay_ended_fn  ended;
    void           *arg;
    char            bytes[65536];
};

/* A write to the socket in progress. */
struct parcel {
    uv_write_t     req;
    struct relay  *relay;
    char           bytes[];
};

/* --- closing -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct relay *t = handle->data;
    if (--t->handles == 0)
        free(t);
}

static void on_flushed(uv_shutdown_t *req, int status)
{
    struct relay *t = req->data;
    (void)status;
    uv_close((uv_handle_t *)&t->pipe, on_closed);
}

/* `finished`: the socket was closed by the peer, so data read from it must still be sent. */
static void end(struct relay *t, bool finished, const char *text)
{
    if (t->over)
        return;
    t->over = true;
    t->shutdown.data = t;
    uv_read_stop((uv_stream_t *)&t->pipe);
    uv_close((uv_handle_t *)&t->relief, on_closed);
    if (finished)
        tls_psk_finish(t->tls);
    else
        tls_psk_close(t->tls);
    if (finished || uv_shutdown(&t->shutdown, (uv_stream_t *)&t->pipe, on_flushed) < 0)
        uv_close((uv_handle_t *)&t->pipe, on_closed);
    if (t->ended)
        t->ended(t->arg, text);
}

/* --- from the socket ------------------------------------------------------------------------ */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct relay *t = handle->data;
    (void)suggested;
    *buf = uv_buf_init(t->bytes, sizeof(t->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void on_relief(uv_timer_t *timer)
{
    struct relay *t = timer->data;
    if (tls_psk_queued(t->tls) > QUEUE_BYTES / 2)
        return;
    uv_timer_stop(timer);
    uv_read_start((uv_stream_t *)&t->pipe, on_alloc, on_read);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct relay *t = stream->data;
    if (n < 0) {
        end(t, true, "the local side closed the connection");
    } else if (n > 0 && tls_psk_write(t->tls, buf->base, (size_t)n) < 0) {
        end(t, false, "sending failed");
    } else if (tls_psk_queued(t->tls) > QUEUE_BYTES) {
        uv_read_stop(stream);
        uv_timer_start(&t->relief, on_relief, LOOK_MS, LOOK_MS);
    }
}

/* --- from the network ----------------------------------------------------------------------- */

static void on_written(uv_write_t *req, int status)
{
    struct parcel *p = req->data;
    struct relay *t = p->relay;
    free(p);
    if (status < 0)
        end(t, false, "the local side stopped reading");
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct relay *t = arg;
    struct parcel *p = malloc(sizeof(*p) + size);
    if (!p) {
        end(t, false, "no memory for received data");
        return;
    }
    memcpy(p->bytes, bytes, size);
    p->relay = t;
    p->req.data = p;
    uv_buf_t buf = uv_buf_init(p->bytes, (unsigned)size);
    if (uv_write(&p->req, (uv_stream_t *)&t->pipe, &buf, 1, on_written) < 0) {
        free(p);
        end(t, false, "the local side stopped reading");
    }
}

static void on_ended(void *arg, const char *text)
{
    end(arg, false, text);
}

/* --- creation and release -------------------------------------------------------------------- */

int relay_open(struct relay **out, uv_loop_t *loop, struct tls_psk *s, int fd,
               relay_ended_fn ended, void *arg, struct err *err)
{
    struct relay *t = calloc(1, sizeof(*t));
    if (!t) {
        close(fd);
        tls_psk_close(s);
        return err_set(err, ERR_MEMORY, "no memory for a relay");
    }
    *t = (struct relay){.tls = s, .handles = 2};
    uv_pipe_init(loop, &t->pipe, 0);
    uv_timer_init(loop, &t->relief);
    t->pipe.data = t->relief.data = t;
    int rc = uv_pipe_open(&t->pipe, fd);
    if (rc < 0) {
        close(fd);
        end(t, false, "");
        return err_set(err, ERR_SYSTEM, "cannot use a local socket: %s", uv_strerror(rc));
    }
    t->ended = ended;
    t->arg = arg;
    tls_psk_set_hooks(s, &(struct tls_psk_hooks){.data = on_data, .ended = on_ended, .arg = t});
    uv_read_start((uv_stream_t *)&t->pipe, on_alloc, on_read);
    *out = t;
    return 0;
}

void relay_forget(struct relay *t)
{
    t->ended = NULL;
}
