/* SPDX-License-Identifier: Apache-2.0 */
/* remote_ssh.c - attempts on another machine: a process that reaches it, and patience when it cannot
 *
 * jobctl-ssh (controller/ssh/) connects us to `jobctl-agent attach` on the host, which finds, starts
 * or buries the agent there and speaks for it. When the process ends the link starts another, with
 * pauses that grow; training goes on meanwhile. What a link cannot reach for HOST_LOST_MS is lost
 * without proof: vanished().
 */
#include "controller/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/identity.h"
#include "agent/log.h"
#include "controller/agent_stream.h"
#include "controller/log_copy.h"
#include "engine/err.h"

enum {
    HOST_LOST_MS = 120 * 1000,
    SILENT_MS = 10 * 1000,      /* a host that says nothing, not even that it is alive */
    PAUSE_MS = 100,
    PAUSE_MAX_MS = 5000,
    EXIT_REFUSED = 2            /* of jobctl-ssh: somebody must change something first */
};

struct helper {
    uv_process_t process;
    struct link *link;          /* NULL: forgotten, only to be freed */
    int          said;          /* its stderr */
};

struct link {
    uv_loop_t        *loop;
    uv_timer_t        timer;
    struct link_hooks hooks;
    struct agent_stream *stream;
    struct helper    *helper;
    bool              closed;
    bool              may_start, dismiss;
    bool              reached;  /* an agent of this attempt was there, at least once */
    uint64_t          lost_ms, silent_ms;
    uint64_t          heard_at; /* in this conversation; 0: nothing yet, the helper has deadlines */
    uint64_t          away_since, pause_ms;
    void            (*step)(struct link *link);
    int64_t           job, attempt;
    char              nonce[NONCE_CHARS + 1];
    char              tag[48];
    char              host[64], key[48];
    char              why[400]; /* what the latest helper said at its end */
    char             *run_dir;
};

static void reach(struct link *link);

static void timer_fired(uv_timer_t *timer)
{
    struct link *link = timer->data;
    if (!link->closed)
        link->step(link);
}

static void later(struct link *link, uint64_t ms, void (*step)(struct link *link))
{
    if (link->closed)
        return;
    link->step = step;
    uv_timer_start(&link->timer, timer_fired, ms, 0);
}

static void reach_later(struct link *link, uint64_t ms)
{
    later(link, ms, reach);
}

/* ---- when a conversation has ended ---- */

static void tell_waiting(struct link *link)
{
    char text[500];
    snprintf(text, sizeof(text), "%s%s", link->why, link->reached ? "; what runs there goes on" : "");
    if (link->hooks.waiting)
        link->hooks.waiting(link->hooks.arg, text);
}

static void tell_vanished(struct link *link)
{
    char text[560];
    snprintf(text, sizeof(text), "%s has not answered for %llu s: %s", link->host,
             (unsigned long long)(uv_now(link->loop) - link->away_since) / 1000, link->why);
    link->hooks.vanished(link->hooks.arg, text);
}

/* Both its process and its stream are gone. */
static void judge(struct link *link, int status)
{
    if (link->closed)
        return;
    const uint64_t now = uv_now(link->loop);
    if (!link->away_since)
        link->away_since = now;
    if (!link->why[0])
        snprintf(link->why, sizeof(link->why), "the connection to %s ended", link->host);
    if (status == EXIT_REFUSED && link->may_start && !link->reached) {
        link->hooks.refused(link->hooks.arg, link->why);
        return;
    }
    if (now - link->away_since >= link->lost_ms) {
        tell_vanished(link);
        return;
    }
    tell_waiting(link);
    reach_later(link, link->pause_ms);
    link->pause_ms = 2 * link->pause_ms < PAUSE_MAX_MS ? 2 * link->pause_ms : PAUSE_MAX_MS;
}

static void helper_closed(uv_handle_t *handle)
{
    struct helper *h = handle->data;
    if (h->said >= 0)
        close(h->said);
    free(h);
}

/* The last line that it said, without its name. */
static void last_words(char *out, size_t size, int said)
{
    char text[4096];
    ssize_t n = pread(said, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = 0;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, "jobctl-ssh: ", 12) == 0)
        line += 12;
    snprintf(out, size, "%.399s", line);
    err_make_printable(out);
}

static void helper_exited(uv_process_t *process, int64_t status, int signo)
{
    struct helper *h = process->data;
    struct link *link = h->link;
    if (link) {
        char words[sizeof(link->why)];
        link->helper = NULL;
        last_words(words, sizeof(words), h->said);
        if (words[0])
            memcpy(link->why, words, sizeof(words));
        if (signo && !link->why[0])
            snprintf(link->why, sizeof(link->why), "the connection to %s was ended by signal %d",
                     link->host, signo);
        if (!link->stream)
            judge(link, (int)status);
    }
    uv_close((uv_handle_t *)process, helper_closed);
}

static void stream_ended(void *arg)
{
    struct link *link = arg;
    link->stream = NULL;
    if (!link->helper)
        judge(link, 0);
    else
        uv_process_kill(&link->helper->process, SIGTERM);   /* ours, and of no more use */
}

/* ---- a conversation ---- */

/* The kernel of a machine whose processes stand still keeps a connection for ever. */
static void listen_for(struct link *link)
{
    const uint64_t silent = uv_now(link->loop) - link->heard_at;
    if (!link->stream)
        return;
    if (silent < link->silent_ms) {
        later(link, link->silent_ms - silent, listen_for);
        return;
    }
    snprintf(link->why, sizeof(link->why), "%s says nothing any more", link->host);
    link->away_since = link->heard_at;
    agent_stream_close(link->stream);
    link->stream = NULL;
    if (link->helper)
        uv_process_kill(&link->helper->process, SIGKILL);
    else
        judge(link, 0);
}


static void heard(void *arg, enum wire_message number, const json_t *body)
{
    struct link *link = arg;
    struct err err = { 0 };
    if (!link->heard_at)
        later(link, link->silent_ms, listen_for);
    link->heard_at = uv_now(link->loop);
    switch (number) {
    case WIRE_ALIVE:
        return;
    case WIRE_LOG:
        if (log_copy_take(link->run_dir, body, &err) < 0)
            log_warn(link->tag, "%s", err.text);
        return;
    case WIRE_LOST:
        link->hooks.lost(link->hooks.arg, json_string_value(json_object_get(body, "text")));
        return;
    case WIRE_HELLO:
        if (link->away_since)
            log_info(link->tag, "%s answers again after %llu ms", link->host,
                     (unsigned long long)(uv_now(link->loop) - link->away_since));
        link->away_since = 0;
        link->pause_ms = PAUSE_MS;
        link->reached = true;
        break;
    default:
        break;
    }
    link->hooks.message(link->hooks.arg, number, body);
}

static void send_order(struct link *link)
{
    json_t *body = json_pack("{s:I, s:I, s:s, s:s, s:b, s:b, s:I, s:o}", "job", (json_int_t)link->job,
                             "attempt", (json_int_t)link->attempt, "nonce", link->nonce, "key",
                             link->key, "may_start", (int)link->may_start, "dismiss",
                             (int)link->dismiss, "acked",
                             (json_int_t)link->hooks.acked(link->hooks.arg), "logs",
                             log_copy_have(link->run_dir));
    if (body)
        agent_stream_send(link->stream, WIRE_ATTACH, body);
    json_decref(body);
}

static void helper_program(char *out, size_t size)
{
    remote_agent_program(out, size);
    char *name = strrchr(out, '/');
    name = name ? name + 1 : out;
    snprintf(name, size - (size_t)(name - out), "jobctl-ssh");
}

bool remote_ssh_there(void)
{
    char program[PATH_MAX];
    helper_program(program, sizeof(program));
    return access(program, X_OK) == 0;
}

/* In a session of its own: nothing that it starts finds a terminal to ask on. */
static int spawn(struct link *link, struct helper *h, int fd)
{
    char program[PATH_MAX];
    helper_program(program, sizeof(program));
    char *args[] = { program, (char[]){ "attach" }, link->host, NULL };
    uv_stdio_container_t io[3] = { { .flags = UV_INHERIT_FD, .data.fd = fd },
                                   { .flags = UV_INHERIT_FD, .data.fd = fd },
                                   { .flags = UV_INHERIT_FD, .data.fd = h->said } };
    uv_process_options_t options = { .exit_cb = helper_exited, .file = program, .args = args,
                                     .flags = UV_PROCESS_DETACHED, .stdio = io, .stdio_count = 3 };
    return uv_spawn(link->loop, &h->process, &options);
}

static void reach(struct link *link)
{
    struct err err = { 0 };
    int pair[2];
    struct helper *h = calloc(1, sizeof(*h));
    if (!h || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        free(h);
        reach_later(link, PAUSE_MAX_MS);
        return;
    }
    h->process.data = h;
    h->said = memfd_create("jobctl-ssh-said", MFD_CLOEXEC);
    link->why[0] = 0;
    link->heard_at = 0;
    int rc = spawn(link, h, pair[1]);
    close(pair[1]);
    if (rc != 0) {
        close(pair[0]);
        uv_close((uv_handle_t *)&h->process, helper_closed);
        snprintf(link->why, sizeof(link->why), "jobctl-ssh could not be started: %s",
                 uv_strerror(rc));
        judge(link, 0);
        return;
    }
    h->link = link;
    link->helper = h;
    const struct wire_id id = { link->job, link->attempt, link->nonce };
    const struct agent_stream_hooks hooks = { heard, stream_ended, link };
    if (agent_stream_open(&link->stream, link->loop, pair[0], &id, &hooks, &err) < 0) {
        log_error(link->tag, "%s", err.text);   /* the helper ends with its input, and is judged */
        return;
    }
    agent_stream_expect_hand(link->stream);
    send_order(link);
}

static uint64_t lost_ms(void)
{
    const char *text = getenv("JOBCTL_HOST_LOST_S");
    long s = text ? strtol(text, NULL, 10) : 0;
    return s > 0 ? (uint64_t)s * 1000 : HOST_LOST_MS;
}

static int ssh_open(struct link **out, uv_loop_t *loop, const struct link_spec *spec,
                    const struct link_hooks *hooks, struct err *err)
{
    struct link *link = calloc(1, sizeof(*link));
    if (!link || !(link->run_dir = strdup(spec->run_dir))) {
        free(link);
        return err_set(err, ERR_MEMORY, "out of memory for a link to an agent");
    }
    link->loop = loop;
    link->hooks = *hooks;
    link->may_start = spec->may_start;
    link->dismiss = spec->dismiss;
    link->lost_ms = spec->dismiss ? UINT64_MAX : lost_ms();
    link->silent_ms = lost_ms() / 2 < SILENT_MS ? lost_ms() / 2 : SILENT_MS;
    link->pause_ms = PAUSE_MS;
    link->job = spec->job;
    link->attempt = spec->attempt;
    snprintf(link->nonce, sizeof(link->nonce), "%s", spec->nonce);
    snprintf(link->host, sizeof(link->host), "%s", spec->host);
    snprintf(link->key, sizeof(link->key), "%s", spec->key);
    snprintf(link->tag, sizeof(link->tag), "%lld.%lld", (long long)spec->job,
             (long long)spec->attempt);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    reach_later(link, spec->delay_ms);
    *out = link;
    return 0;
}

static void ssh_send(struct link *link, enum wire_message number, json_t *body)
{
    if (link->stream)
        agent_stream_send(link->stream, number, body);
    json_decref(body);
}

static void timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    free(link->run_dir);
    free(link);
}

/* The helper ends with its input. */
static void ssh_close(struct link *link)
{
    link->closed = true;
    uv_close((uv_handle_t *)&link->timer, timer_closed);
    if (link->helper) {
        link->helper->link = NULL;
        uv_unref((uv_handle_t *)&link->helper->process);
    }
    agent_stream_close(link->stream);
    link->stream = NULL;
}

const struct remote remote_ssh = {
    .name = "ssh",
    .open = ssh_open,
    .send = ssh_send,
    .close = ssh_close,
};
