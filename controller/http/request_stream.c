/* SPDX-License-Identifier: Apache-2.0 */
/* request_stream.c - an answer without an end, for as long as the client listens: server-sent events */
#include "controller/http/request.h"

#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/http/server_internal.h"

enum { PART = 16384, GATHER_MS = 100, SILENT_MS = 15000 };

struct stream {
    request_more_fn more;
    void           *state;
    void          (*drop)(void *state);
    int64_t         job, ms;
    bool            asked;                  /* more() since it last slept */
    int64_t         asked_ms, sent_ms;      /* when more() was called, and something was sent */
    char           *text;                   /* what is to be sent, from `at` on */
    size_t          size, at;
};

static int64_t now_of(const struct request *r)
{
    return (int64_t)uv_now(&request_daemon(r)->loop);
}

/* Asks for more. After a long silence it is a comment, which finds out whether the client is still there. */
static bool refill(struct request *r)
{
    struct stream *s = r->stream;
    const int64_t now = now_of(r);
    r->listener->service->settle(request_daemon(r));
    free(s->text);
    s->asked = true;
    s->asked_ms = now;
    s->at = 0;
    s->text = s->more(r, s->state);
    if (!s->text && now - s->sent_ms >= SILENT_MS)
        s->text = strdup(":\n\n");
    s->size = s->text ? strlen(s->text) : 0;
    return s->size > 0;
}

static ssize_t send_text(struct stream *s, char *out, size_t max, int64_t now)
{
    const size_t left = s->size - s->at, n = left < max ? left : max;
    memcpy(out, s->text + s->at, n);
    s->at += n;
    s->sent_ms = now;
    return (ssize_t)n;
}

static ssize_t read_part(void *arg, uint64_t position, char *out, size_t max)
{
    struct request *r = arg;
    struct stream *s = r->stream;
    const int64_t early = s->asked_ms + GATHER_MS - now_of(r);
    (void)position;
    if (r->listener->server->closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (s->at < s->size || (!s->asked && early <= 0 && refill(r)))
        return send_text(s, out, max, now_of(r));
    const int rc = s->asked ? request_rest(r, s->job, s->ms) : request_rest(r, NO_JOB, early);
    s->asked = false;
    return rc < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : 0;
}

static void stream_fini(struct request *r)
{
    r->stream->drop(r->stream->state);
    free(r->stream->text);
    free(r->stream);
    r->stream = NULL;
}

void request_stream(struct request *r, request_more_fn more, void *state, void (*drop)(void *state), int64_t job,
                    int64_t ms)
{
    struct MHD_Response *response = NULL;
    if ((r->stream = calloc(1, sizeof(*r->stream)))) {
        *r->stream = (struct stream){ .more = more, .state = state, .drop = drop, .job = job, .ms = ms,
                                      .asked_ms = -GATHER_MS, .sent_ms = now_of(r) };
        r->stream_fini = stream_fini;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PART, read_part, r, NULL);
    } else {
        drop(state);
    }
    if (!response || r->no_memory) {
        request_refuse(r, 503, "system", "out of memory for a stream", NULL);
    } else {
        request_add_headers(response, r, "text/event-stream; charset=utf-8");
        r->answered = true;
        r->result = MHD_queue_response(r->connection, 200, response);
    }
    if (response)
        MHD_destroy_response(response);
}
