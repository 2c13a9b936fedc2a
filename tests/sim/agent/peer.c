/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - a controller at the agent's socket: launches, acknowledges, stops, and is cut off; see host.h */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "agent/os/unix_socket.h"
#include "agent/wire/frame.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "tests/sim/agent/host.h"

enum {
    EVENTS = 20000, AT_ONCE_MS = 20, SECOND_MS = 1000, BEAT_MS = 1100, UNLAUNCHED_MS = 60000, LINGER_MS = 10 * 60 * 1000
};

static struct {
    int fd;
    struct frame_reader *reader;
    int64_t connects, cuts, acks, stops, saves; /* when it does so next */
    int64_t since;                 /* connected and launched */
    int64_t beat, heard;           /* the last heartbeat, the last message */
    json_t *events[EVENTS];        /* as received, by seq - 1 */
    int64_t received, committed, synced;
    int64_t next_seq;              /* on this connection */
    bool ended;                    /* attempt_ended was received */
    int64_t ended_at, acked_all;
} peer;

/* The agent of the second node: it is launched, and says nothing of its own. */
static struct {
    int fd;
    struct frame_reader *reader;
    bool greeted, launched;
    json_t *endpoint;
} second;

static void cut(const char *why)
{
    if (peer.fd < 0)
        return;
    say("the controller is cut off: %s", why);
    close(peer.fd);
    frame_reader_destroy(peer.reader);
    peer.reader = NULL;
    peer.fd = -1;
    peer.since = peer.heard = 0;
    peer.received = peer.committed; /* what was not committed is forgotten */
    peer.acked_all = 0;
    peer.connects = now() + ms(sim_chance() % 3 ? sim_between(1, 2000) : sim_between(1000, 40000));
}

static void send_on(int fd, enum wire_message number, json_t *body)
{
    struct err err = {0};
    const struct wire_id id = {7, 1, "0123456789abcdef"};
    size_t size = 0;
    char *frame = frame_pack(number, &id, body, &size, &err);
    if (!frame)
        broke("the controller cannot speak: %s", err.text);
    else if (send(fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size)
        say("the controller's message %d is lost", (int)number);
    free(frame);
}

static void send_to(enum wire_message number, json_t *body)
{
    send_on(peer.fd, number, body);
}

static json_t *spec_of(const struct plan *plan)
{
    json_t *spec = json_make("{s:{s:i}, s:s, s:{s:s}}", "resources", "ranks", plan->np / plan->nodes, "workdir",
                             host.dir, "checkpoint", "origin", "this-job");
    if (plan->command)
        json_object_set_new(spec, "run", json_string("python train.py"));
    else
        json_object_set_new(spec, "train", json_object());
    if (plan->nodes > 1)
        json_object_set_new(json_object_get(spec, "resources"), "nodes", json_integer(plan->nodes));
    if (plan->has_setup)
        json_object_set_new(spec, "setup", json_string("make"));
    return spec;
}

static json_t *launch_body(int node, const char *run_dir, int64_t acked)
{
    const struct plan *plan = &host.plan;
    json_t *body =
        json_make("{s:s, s:o, s:s, s:s, s:s, s:o, s:I, s:{}, s:{s:I, s:I, s:I, s:I}, s:{s:i, s:i, s:i, s:s}}",
                      "name", "test", "spec", spec_of(plan), "spec_digest", "", "run_dir", run_dir, "job_dir",
                      host.dir,
                      "ckpt_dir", json_text_f(plan->lease ? "%s.shared" : "%s/checkpoints", host.dir), "acked",
                      (json_int_t)acked, "secrets",
                      "budget", "restarts", (json_int_t)plan->restarts, "backoff_min_ms",
                      (json_int_t)plan->backoff_min_ms, "backoff_max_ms", (json_int_t)plan->backoff_max_ms,
                      "no_progress", (json_int_t)plan->no_progress, "history", "failures_without_progress", 0,
                      "same_fingerprint", 0, "last_step", 0, "fingerprint", "");
    json_t *group = plan->nodes > 1 ? json_make("{s:i, s:i, s:[s, s]}", "node", node, "nodes", plan->nodes, "names",
                                                "n1", "n2") : NULL;
    if (node > 0)
        json_object_set(group, "endpoint", second.endpoint);
    if (group)
        json_object_set_new(body, "group", group);
    return body;
}

/* Once the first node listens for it. */
static void launch_second(void)
{
    if (!second.greeted || second.launched || !second.endpoint)
        return;
    second.launched = true;
    send_on(second.fd, WIRE_LAUNCH, launch_body(1, host.run_dir2, 0));
}

static void launch(void)
{
    if (host.plan.never_launched)
        return;
    send_to(WIRE_LAUNCH, launch_body(0, host.run_dir, peer.committed));
    peer.next_seq = peer.committed + 1;
    peer.since = peer.beat = peer.heard = now();
}

/* --- what it hears ----------------------------------------------------------------------------------------- */

static void take_event(const json_t *body)
{
    const int64_t seq = json_integer_value(json_object_get(body, "seq")),
                  stored = json_integer_value(json_object_get(body, "mono_ns"));
    const char *kind = json_string_value(json_object_get(body, "kind"));
    if (seq != peer.next_seq || seq > EVENTS) {
        broke("event %lld (%s) arrives, and %lld is due", (long long)seq, kind, (long long)peer.next_seq);
        return;
    }
    peer.next_seq++;
    if (peer.since && stored > peer.since && now() - stored > ms(AT_ONCE_MS))
        broke("event %lld (%s) arrives %lld ms after it was stored", (long long)seq, kind,
              (long long)((now() - stored) / NS_PER_MS));
    json_t **known = &peer.events[seq - 1], *event = json_deep_copy(body);
    static const char *const id[] = {"job", "attempt", "nonce"}; /* added when it is sent */
    for (size_t i = 0; i < sizeof(id) / sizeof(id[0]); i++)
        json_object_del(event, id[i]);
    if (*known && !json_equal(*known, event))
        broke("event %lld (%s) is another one when it is sent again", (long long)seq, kind);
    if (seq == host.plan.killed_by)
        host.plan.killed = now();
    if (!*known)
        rules_event(*known = json_incref(event));
    json_decref(event);
    peer.received = seq;
    if (strcmp(kind, "step") != 0) /* which may be lost, and so are not synced before they are sent */
        peer.synced = seq;
    if (strcmp(kind, "attempt_ended") == 0 && !peer.ended) {
        peer.ended = true;
        peer.ended_at = now();
    }
    if (peer.acks == NEVER && !host.plan.never_acked)
        peer.acks = now() + (sim_chance() % 4 ? 0 : ms(sim_between(0, 3000)));
}

static bool take(void *arg, const struct wire_row *row, const json_t *body)
{
    (void)arg;
    peer.heard = now();
    if (row->number == WIRE_HELLO) {
        launch();
    } else if (row->number == WIRE_LISTENING) {
        json_decref(second.endpoint);
        second.endpoint = json_deep_copy(json_object_get(body, "endpoint"));
        launch_second();
    } else if (row->number == WIRE_EVENT) {
        take_event(body);
    } else if (row->number == WIRE_HEARTBEAT) {
        rules_heartbeat(body);
        peer.beat = now();
    }
    return true;
}

static bool take_first(void)
{
    char bytes[65536];
    struct err err = {0};
    const ssize_t n = peer.fd < 0 ? -1 : recv(peer.fd, bytes, sizeof(bytes), 0);
    if (n < 0)
        return false;
    if (n == 0) {
        if (!peer.ended && !host.plan.never_launched)
            broke("the agent closed the connection");
        cut("the agent closed the connection");
        return false;
    }
    if (frame_read_all(peer.reader, bytes, (size_t)n, take, NULL, &err) < 0)
        broke("the agent's message: %s", err.text);
    return true;
}

static bool take_second(void *arg, const struct wire_row *row, const json_t *body)
{
    (void)arg, (void)body;
    second.greeted = second.greeted || row->number == WIRE_HELLO;
    if (row->number == WIRE_EVENT || row->number == WIRE_HEARTBEAT)
        broke("the second node sends %s", row->name);
    launch_second();
    return true;
}

static bool listen_to_second(void)
{
    char bytes[65536];
    struct err err = {0};
    const ssize_t n = second.fd < 0 ? -1 : recv(second.fd, bytes, sizeof(bytes), 0);
    if (n > 0 && frame_read_all(second.reader, bytes, (size_t)n, take_second, NULL, &err) < 0)
        broke("the second agent's message: %s", err.text);
    return n > 0;
}

bool peer_listen(void)
{
    const bool heard = listen_to_second();
    return take_first() || heard;
}

/* --- what it does ------------------------------------------------------------------------------------------- */

static int connect_at(const char *run_dir, struct frame_reader **reader, struct err *err)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/agent.sock", run_dir);
    const int fd = host_keep(unix_socket_connect(path, true, err));
    if (fd >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        frame_reader_create(reader, TO_CONTROLLER, NULL);
    }
    return fd;
}

static void connect_to(void)
{
    struct err err = {0};
    peer.connects = NEVER;
    if (!sim_alive(host.agent))
        return;
    if (host.follower && second.fd < 0)
        second.fd = connect_at(host.run_dir2, &second.reader, &err);
    peer.fd = connect_at(host.run_dir, &peer.reader, &err);
    if (peer.fd >= 0)
        say("the controller connects");
    else if (!rules_stopping())
        broke("no connection to the agent: %s", err.text);
}

static void stop(void)
{
    const int64_t grace_ms = sim_between(0, 20000);
    peer.stops = NEVER;
    if (!peer.since || peer.ended) {
        peer.stops = peer.ended ? NEVER : now() + ms(500);
        return;
    }
    say("the controller stops the attempt, grace %lld ms", (long long)grace_ms);
    rules_stop(grace_ms, false);
    send_to(WIRE_STOP, json_make("{s:s, s:I, s:b}", "reason", "asked", "grace_ms", (json_int_t)grace_ms, "checkpoint",
                                 (int)(sim_chance() % 2)));
}

static bool is_due(int64_t *at)
{
    if (*at > now())
        return false;
    *at = NEVER;
    return true;
}

void peer_run(void)
{
    if (is_due(&peer.connects) && peer.fd < 0)
        connect_to();
    if (is_due(&peer.acks) && peer.since) {
        peer.committed = peer.received;
        send_to(WIRE_ACK, json_make("{s:I}", "seq", (json_int_t)peer.committed));
        if (peer.ended && !peer.acked_all)
            peer.acked_all = now();
    }
    if (is_due(&peer.saves) && peer.since) {
        rules_save();
        send_to(WIRE_CHECKPOINT, json_object());
        peer.saves = now() + ms(sim_between(5000, 60000));
    }
    if (peer.stops <= now())
        stop();
    if (is_due(&peer.cuts)) {
        cut("its link");
        peer.cuts = now() + ms(sim_between(1000, 120000));
    }
}

int64_t peer_due(void)
{
    const int64_t all[] = {peer.connects, peer.acks, peer.saves, peer.stops, peer.fd < 0 ? NEVER : peer.cuts,
                           peer.since && !peer.ended ? peer.beat + ms(BEAT_MS) + 1 : NEVER,
                           peer.fd >= 0 && peer.heard ? peer.heard + ms(2 * BEAT_MS) + 1 : NEVER};
    int64_t due = NEVER;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        due = all[i] < due ? all[i] : due;
    return due;
}

void peer_look(void)
{
    if (peer.fd >= 0 && peer.heard && now() - peer.heard > ms(2 * BEAT_MS))
        broke("nothing is heard of the agent for %lld ms", (long long)((now() - peer.heard) / NS_PER_MS));
    if (peer.since && !peer.ended && now() - peer.beat > ms(BEAT_MS))
        broke("no heartbeat for %lld ms", (long long)((now() - peer.beat) / NS_PER_MS));
    if (peer.acked_all && now() - peer.acked_all > ms(AT_ONCE_MS))
        broke("the attempt is over and acknowledged, and the agent stays");
}

void peer_begin(void)
{
    peer.fd = second.fd = -1;
    peer.connects = now() + ms(sim_between(0, 2000));
    peer.acks = NEVER;
    peer.cuts = sim_chance() % 2 ? NEVER : now() + ms(sim_between(1000, 60000));
    peer.stops = sim_chance() % 3 ? NEVER : now() + ms(sim_between(0, 300000));
    peer.saves = sim_chance() % 2 ? NEVER : now() + ms(sim_between(1000, 60000));
}

static int is_known(void *arg, const json_t *event)
{
    int64_t *seq = arg;
    if (json_integer_value(json_object_get(event, "seq")) != ++*seq)
        broke("the spool has event %lld, and %lld is due",
              (long long)json_integer_value(json_object_get(event, "seq")), (long long)*seq);
    if (*seq <= EVENTS && peer.events[*seq - 1] && !json_equal(event, peer.events[*seq - 1]))
        broke("event %lld differs in the spool", (long long)*seq);
    return 0;
}

/* Then events are in memory only. */
static bool disk_is_full(void)
{
    return now() >= host.plan.full && now() < host.plan.free + ms(SECOND_MS);
}

void peer_killed(void)
{
    char path[200];
    struct err err = {0};
    int64_t seq = peer.committed;
    snprintf(path, sizeof(path), "%s/spool", host.run_dir);
    if (spool_read(path, peer.committed, is_known, &seq, &err) < 0 && peer.synced > 0)
        broke("the spool cannot be read: %s", err.text);
    else if (seq < peer.synced && !disk_is_full())
        broke("event %lld was sent, and the spool ends at %lld", (long long)peer.synced, (long long)seq);
}

static int take_stored(void *arg, const json_t *event)
{
    (void)arg;
    take_event(event);
    return 0;
}

static void read_spool(void)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/spool", host.run_dir);
    peer.next_seq = peer.committed + 1;
    spool_read(path, peer.committed, take_stored, NULL, NULL);
}

void peer_end(void)
{
    peer_listen();
    const int64_t left = now() - (peer.ended ? peer.ended_at : host.began);
    if (host.plan.never_launched && !rules_stopping() &&
        (left < ms(UNLAUNCHED_MS) || left > ms(UNLAUNCHED_MS + 2 * BEAT_MS)))
        broke("the agent leaves %lld ms after its start, without a LAUNCH", (long long)(left / NS_PER_MS));
    if (host.plan.never_launched)
        return;
    if (!peer.ended && peer.fd < 0) /* the controller reads what was not sent */
        read_spool();
    if (!peer.ended && disk_is_full()) /* a fenced agent does not wait for space */
        return;
    if (!peer.ended)
        broke("the agent has left without attempt_ended");
    if (peer.committed < peer.received && left < ms(LINGER_MS) && !rules_stopping())
        broke("the agent leaves %lld ms after attempt_ended, and was not acknowledged", (long long)(left / NS_PER_MS));
    if (left > ms(LINGER_MS + 2 * BEAT_MS))
        broke("the agent leaves %lld ms after attempt_ended", (long long)(left / NS_PER_MS));
    if (peer.committed < peer.received)
        peer_killed();
    if (peer.fd >= 0)
        cut("the end");
}
