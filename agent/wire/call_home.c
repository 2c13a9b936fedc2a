/* SPDX-License-Identifier: Apache-2.0 */
/* call_home.c - see call_home.h */
#include "agent/wire/call_home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "agent/wire/byte_stream.h"
#include "agent/wire/tls_listener.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { LOOK_MS = 500, AGAIN_MS = 50, PAUSE_MIN_MS = 500, PAUSE_MAX_MS = 10000, TEXT = 8192 };

struct call_home {
    uv_loop_t                   *loop;
    uv_timer_t                   timer;
    bool                         closing, connected;
    call_home_fn                 take; /* the owner of a connection */
    void                        *arg;
    char                         path[PATH_MAX];
    char text[TEXT];                  /* contents of the file at the last read */
    struct tls_listener_endpoint way; /* parsed from it; no addresses: unusable */
    char                         name[TLS_PSK_NAME];
    int at; /* index of the address being tried */
    uint64_t                     due_ms, pause_ms;
    struct byte_stream          *stream; /* not ready yet */
    char first[300];                           /* error of the first address in this round */
    char trouble[300];                         /* error of the last complete round; "" = none */
};

static void try_address(struct call_home *d);

/* --- call.json --------------------------------------------------------------------------------- */

/* Refuses a file that other users may read or write. */
static int read_file(char out[TEXT], const char *path, struct err *err)
{
    struct stat st;
    int fd = safe_open(path, O_RDONLY, err);
    if (fd < 0)
        return -1;
    ssize_t n = fstat(fd, &st) == 0 ? read(fd, out, TEXT - 1) : -1;
    close(fd);
    if (n < 0 || n == TEXT - 1)
        return err_set(err, ERR_DATA, "cannot read %s", path);
    out[n] = 0;
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, ERR_DATA, "%s is accessible to other users", path);
    return 0;
}

static int take_text(struct call_home *d, struct err *err)
{
    json_t *said = json_loads(d->text, 0, NULL);
    const char *name = json_string_value(json_object_get(said, "name"));
    int rc = tls_listener_endpoint_read(&d->way, said, err);
    if (rc == 0 && (!name || strlen(name) >= sizeof(d->name)))
        rc = err_set(err, ERR_DATA, "\"name\" of the key is missing or too long");
    if (rc < 0)
        d->way.addresses = 0;
    else
        snprintf(d->name, sizeof(d->name), "%s", name);
    json_decref(said);
    return rc < 0 ? err_prefix(err, "%s: ", d->path) : 0;
}

/* True: its contents have changed. */
static bool look_at_file(struct call_home *d)
{
    char text[TEXT];
    struct err err = {0};
    int rc = read_file(text, d->path, &err);
    if (rc < 0)
        text[0] = 0;
    if (rc == 0 && strcmp(text, d->text) == 0)
        return false;
    memcpy(d->text, text, sizeof(text));
    d->way.addresses = 0;
    if (rc == 0)
        rc = take_text(d, &err);
    if (rc < 0 && err.code != ERR_NOT_FOUND && strncmp(d->trouble, err.text, 250) != 0) {
        snprintf(d->trouble, sizeof(d->trouble), "%.299s", err.text);
        log_warn(NULL, "%s", d->trouble);
    }
    return rc == 0;
}

/* --- connecting -------------------------------------------------------------------------------- */

static void on_look(uv_timer_t *timer)
{
    struct call_home *d = timer->data;
    if (d->stream || d->connected)
        return;
    if (look_at_file(d)) {
        d->at = 0;
        d->pause_ms = PAUSE_MIN_MS;
        d->due_ms = 0;
    }
    if (d->way.addresses > 0 && uv_now(d->loop) >= d->due_ms)
        try_address(d);
}

void call_home_again(struct call_home *d)
{
    d->connected = false;
    if (!d->closing)
        uv_timer_start(&d->timer, on_look, AGAIN_MS, LOOK_MS);
}

static void on_ready(void *arg)
{
    struct call_home *d = arg;
    char address[BYTE_STREAM_ADDRESS];
    struct byte_stream *s = d->stream;
    d->stream = NULL;
    d->trouble[0] = 0;
    d->pause_ms = PAUSE_MIN_MS;
    d->due_ms = 0;
    d->connected = true;
    log_info(NULL, "connected to the controller at %s port %d",
             tls_listener_endpoint_text(&d->way, d->at, address), d->way.port);
    d->take(d->arg, s);
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    (void)arg; /* data goes to the new owner's hook */
    (void)bytes;
    (void)size;
}

/* All addresses failed: waits. The error of the first address is reported, as that is most
 * likely the right one. */
static void end_round(struct call_home *d)
{
    if (strcmp(d->first, d->trouble) != 0)
        log_warn(NULL, "cannot reach the controller at %s", d->first);
    memcpy(d->trouble, d->first, sizeof(d->trouble));
    d->due_ms = uv_now(d->loop) + d->pause_ms;
    d->pause_ms = 2 * d->pause_ms < PAUSE_MAX_MS ? 2 * d->pause_ms : PAUSE_MAX_MS;
}

static void next_address(struct call_home *d, const char *text)
{
    char address[BYTE_STREAM_ADDRESS], more[60] = "";
    if (d->way.addresses > 1)
        snprintf(more, sizeof(more), "; %d more addresses failed too", d->way.addresses - 1);
    if (d->at == 0)
        snprintf(d->first, sizeof(d->first), "%s port %d: %.180s%s",
                 tls_listener_endpoint_text(&d->way, 0, address), d->way.port, text, more);
    d->at = (d->at + 1) % d->way.addresses;
    if (d->at > 0)
        try_address(d);
    else
        end_round(d);
}

static void on_ended(void *arg, const char *text)
{
    struct call_home *d = arg;
    byte_stream_close(d->stream);
    d->stream = NULL;
    next_address(d, text);
}

static void try_address(struct call_home *d)
{
    struct err err = {0};
    const struct byte_stream_hooks hooks = {
        .ready = on_ready, .data = on_data, .ended = on_ended, .arg = d};
    if (byte_stream_connect(&d->stream, d->loop, tls_listener_endpoint_address(&d->way, d->at),
                            tls_psk_client(d->name, d->way.key), &hooks, &err) < 0) {
        d->stream = NULL;
        next_address(d, err.text);
    }
}

const char *call_home_trouble(const struct call_home *d)
{
    return d && !d->connected && d->trouble[0] ? d->trouble : NULL;
}

/* --- creation and release -------------------------------------------------------------------- */

int call_home_open(struct call_home **out, uv_loop_t *loop, const char *run_dir,
                   call_home_fn connected, void *arg, struct err *err)
{
    struct call_home *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory to connect to the controller");
    if (snprintf(d->path, sizeof(d->path), "%s/" RUN_DIR_CALL, run_dir) >= (int)sizeof(d->path)) {
        free(d);
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    }
    d->loop = loop;
    d->take = connected;
    d->arg = arg;
    uv_timer_init(loop, &d->timer);
    d->timer.data = d;
    uv_timer_start(&d->timer, on_look, 0, LOOK_MS);
    *out = d;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void call_home_close(struct call_home *d)
{
    if (!d || d->closing)
        return;
    d->closing = true;
    byte_stream_close(d->stream);
    uv_close((uv_handle_t *)&d->timer, on_closed);
}
