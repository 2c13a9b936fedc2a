/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_probe.c - see fleet_probe.h */
#include "controller/nodes/fleet_probe.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/os/buf.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"

enum { PATIENCE_MS = 15000, ANSWER_MAX = 4 * 1024 * 1024 };

struct fleet_probe {
    struct daemon *daemon;
    fleet_probe_fn told;        /* NULL: already called, or cancelled */
    uv_process_t   process;
    uv_pipe_t      pipe;
    uv_timer_t     timer;
    struct buf     answer;
    char           bytes[4096];
    int            handles;     /* not yet closed */
};

static void closed(uv_handle_t *handle)
{
    struct fleet_probe *p = handle->data;
    if (--p->handles > 0)
        return;
    buf_fini(&p->answer);
    free(p);
}

static void finish(struct fleet_probe *p)
{
    const fleet_probe_fn told = p->told;
    p->told = NULL;
    uv_close((uv_handle_t *)&p->pipe, closed);
    uv_close((uv_handle_t *)&p->timer, closed);
    if (!told)
        return;
    json_t *facts = p->answer.data ? json_loads(p->answer.data, 0, NULL) : NULL;
    if (!json_is_object(facts))
        log_warn(NULL, "probing this node failed; its GPUs are not used");
    told(p->daemon, json_is_object(facts) ? json_incref(facts) : json_object());
    json_decref(facts);
}

static void room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct fleet_probe *p = handle->data;
    (void)wanted;
    *buf = uv_buf_init(p->bytes, sizeof(p->bytes));
}

static void came(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct fleet_probe *p = stream->data;
    if (n > 0 && p->answer.size < ANSWER_MAX && buf_append(&p->answer, buf->base, (size_t)n) == 0)
        return;
    if (n != 0 && !uv_is_closing((uv_handle_t *)&p->pipe))
        finish(p);
}

static void exited(uv_process_t *process, int64_t status, int signo)
{
    (void)status;
    (void)signo;
    uv_close((uv_handle_t *)process, closed);
}

static void impatient(uv_timer_t *timer)
{
    struct fleet_probe *p = timer->data;
    log_warn(NULL, "the probe of this node timed out after %d s", PATIENCE_MS / 1000);
    uv_process_kill(&p->process, SIGKILL);
    finish(p);
}

struct fleet_probe *fleet_probe_open(struct daemon *d, fleet_probe_fn told)
{
    char program[PATH_MAX];
    struct fleet_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        told(d, json_object());
        return NULL;
    }
    p->daemon = d;
    p->told = told;
    p->handles = 3;
    p->process.data = p->pipe.data = p->timer.data = p;
    uv_pipe_init(&d->loop, &p->pipe, 0);
    uv_timer_init(&d->loop, &p->timer);
    remote_agent_program(program, sizeof(program));
    char *args[] = { program, (char[]){ "probe" }, d->home, NULL };
    uv_stdio_container_t io[3] = {
        { .flags = UV_IGNORE, .data = { 0 } },
        { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
          .data.stream = (uv_stream_t *)&p->pipe },
        { .flags = UV_IGNORE, .data = { 0 } },
    };
    const uv_process_options_t options = { .exit_cb = exited, .file = program, .args = args,
                                           .stdio = io, .stdio_count = 3 };
    int rc = uv_spawn(&d->loop, &p->process, &options);
    if (rc != 0) {
        log_warn(NULL, "cannot run %s: %s", program, uv_strerror(rc));
        uv_close((uv_handle_t *)&p->process, closed);
        finish(p);
        return NULL;
    }
    uv_timer_start(&p->timer, impatient, PATIENCE_MS, 0);
    uv_read_start((uv_stream_t *)&p->pipe, room, came);
    return p;
}

void fleet_probe_close(struct fleet_probe *p)
{
    if (!p)
        return;
    p->told = NULL;
    uv_process_kill(&p->process, SIGKILL);
    finish(p);
}
