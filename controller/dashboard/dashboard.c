/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.c - see dashboard.h */
#include "controller/dashboard/dashboard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/os/log.h"
#include "agent/os/tcp_listen.h"
#include "controller/base/daemon.h"
#include "controller/dashboard/assets.h"
#include "controller/http/request.h"
#include "controller/http/server.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define KEY_HEADER "X-Jobctl-Key"
#define FRAME_HEADER "X-Jobctl-Frame"   /* the frame page sends it: no form and no other site can */
#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "             \
    "base-uri 'none'; form-action 'none'; frame-ancestors "

struct dashboard {
    struct access access;
    int           port;         /* 0: it does not listen */
    char          site[ACCESS_SITE];    /* may show the frame page; "": none may */
};

static int draw_secret(char out[ACCESS_SECRET], struct err *err)
{
    unsigned char bits[(ACCESS_SECRET - 1) / 2];
    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for a link to the dashboard");
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(out + 2 * i, 3, "%02x", bits[i]);
    return 0;
}

/* ---- the listener ---- */

static int begin_listening(struct daemon *d, const struct service *service, int port, struct err *err)
{
    char at[TCP_LISTEN_TEXT], bound[TCP_LISTEN_TEXT];
    snprintf(at, sizeof(at), "127.0.0.1:%d", port);
    const int fd = tcp_listen(bound, at, err);
    if (fd < 0 || server_listen(d->server, service, fd, err) < 0)
        return -1;
    d->dashboard->port = atoi(strrchr(bound, ':') + 1);
    log_info(NULL, "dashboard: http://%s/", bound);
    return 0;
}

int dashboard_link(char token[ACCESS_SECRET], struct daemon *d, const struct service *service, int port,
                   const char *site, struct err *err)
{
    char ancestors[2 * ACCESS_SITE];
    if (site[0] && (strlen(site) >= ACCESS_SITE || !access_ancestors(ancestors, sizeof(ancestors), site)))
        return err_set(err, ERR_USAGE, "frame: expected colab, an origin such as https://hub.example.org, or one of this "
                       "machine such as http://localhost:8888, not \"%.80s\"", site);
    if (!d->dashboard && !(d->dashboard = calloc(1, sizeof(*d->dashboard))))
        return err_set(err, ERR_MEMORY, "out of memory for the dashboard");
    struct dashboard *b = d->dashboard;
    if (b->port && port && port != b->port)
        return err_set(err, ERR_CONFLICT, "the dashboard listens on port %d already, not %d: leave out --port, or run "
                       "`jobctl daemon restart` first", b->port, port);
    if (!b->port && begin_listening(d, service, port, err) < 0)
        return -1;
    if (draw_secret(token, err) < 0)
        return -1;
    if (site[0])
        snprintf(b->site, sizeof(b->site), "%s", site);
    access_add_link(&b->access, token, site[0], daemon_now_ms());
    return b->port;
}

void dashboard_close(struct daemon *d)
{
    free(d->dashboard);
    d->dashboard = NULL;
}

/* ---- who may ask ---- */

static void refuse(struct request *r, int status, const char *text)
{
    request_answer(r, status, json_make("{s:{s:s, s:s}}", "error", "code", "usage", "text", text));
}

/* No script, style or picture from elsewhere or inline, in no frame, sent nowhere, kept by no cache. */
static void set_headers(struct request *r)
{
    request_set_header(r, "Content-Security-Policy", POLICY "'none'");
    request_set_header(r, "X-Content-Type-Options", "nosniff");
    request_set_header(r, "X-Frame-Options", "DENY");
    request_set_header(r, "Referrer-Policy", "no-referrer");
    request_set_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    request_set_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    request_set_header(r, "Cache-Control", "no-store");
}

static bool is_framed(const struct request *r)
{
    return request_header(r, FRAME_HEADER) != NULL;
}

/* A proxy of the named site may name itself; sessions of tabs do not reach it (dashboard_permit()). */
static bool origin_fits(const struct request *r, const struct dashboard *b)
{
    const char *origin = request_header(r, "Origin");
    return access_origin_fits(origin, b->port) || access_proxy_origin_fits(origin, b->site);
}

static bool is_proxied(const struct request *r, const struct dashboard *b)
{
    return !access_host_fits(request_header(r, "Host"), b->port);
}

bool dashboard_admit(struct request *r)
{
    const struct dashboard *b = request_daemon(r)->dashboard;
    set_headers(r);
    if (is_proxied(r, b) && !access_proxy_fits(request_header(r, "Host"), b->site))
        refuse(r, 421, "this is the jobctl dashboard on 127.0.0.1; the Host header names another machine or port: run "
               "`jobctl dashboard` for a link");
    else if (!origin_fits(r, b))
        refuse(r, 403, "the dashboard answers only its own page, not other sites");
    else
        return true;
    return false;
}

static bool needs_session(const struct route *route)
{
    return strncmp(route->path, "/v1/", 4) == 0 && strcmp(route->path, "/v1/session") != 0;
}

bool dashboard_permit(struct request *r, const struct route *route)
{
    const struct dashboard *b = request_daemon(r)->dashboard;
    const bool framed = is_framed(r);
    if (!framed && is_proxied(r, b) && strncmp(route->path, "/v1/", 4) == 0) {
        refuse(r, 403, "through a proxy, only the page in a frame works: run `jobctl dashboard --frame SITE`");
        return false;
    }
    if (!needs_session(route) ||
        access_admits(&b->access, b->port, request_header(r, "Cookie"), request_header(r, KEY_HEADER), framed))
        return true;
    refuse(r, 401, "no session: run `jobctl dashboard` and open its link");
    return false;
}

/* ---- answers ---- */

/* A browser may keep no cookie of a frame. */
static void begin_frame_session(struct request *r, struct dashboard *b)
{
    char key[ACCESS_SECRET];
    struct err err = { 0 };
    if (draw_secret(key, &err) < 0) {
        request_fail(r, &err, NULL);
        return;
    }
    access_add_session(&b->access, "", key);
    request_answer(r, 200, json_make("{s:s}", "key", key));
}

static void begin_session(struct request *r, struct dashboard *b)
{
    char cookie[ACCESS_SECRET], key[ACCESS_SECRET], header[160];
    struct err err = { 0 };
    if (draw_secret(cookie, &err) < 0 || draw_secret(key, &err) < 0) {
        request_fail(r, &err, NULL);
        return;
    }
    access_add_session(&b->access, cookie, key);
    snprintf(header, sizeof(header), "jobctl_%d=%s; HttpOnly; SameSite=Strict; Path=/v1/", b->port, cookie);
    request_set_header(r, "Set-Cookie", header);
    request_answer(r, 200, json_make("{s:s}", "key", key));
}

void dashboard_session(struct request *r)
{
    struct dashboard *b = request_daemon(r)->dashboard;
    const bool framed = is_framed(r);
    switch (access_redeem(&b->access, field_text(request_body(r), "token"), framed, daemon_now_ms())) {
    case ACCESS_GRANTED:
        (framed ? begin_frame_session : begin_session)(r, b);
        break;
    case ACCESS_DENIED:
        refuse(r, 401, "this link was used already, is older than 10 minutes, or belongs to an earlier daemon: run "
               "`jobctl dashboard` for a new one");
        break;
    case ACCESS_TOO_OFTEN:
        refuse(r, 429, "too many wrong links within a minute: wait a minute, then run `jobctl dashboard`");
        break;
    }
}

void dashboard_asset(struct request *r)
{
    const char *name = request_job(r);
    const struct asset *asset = assets_find(name[0] ? name : "index.html");
    if (asset)
        request_answer_text(r, 200, asset->type, strdup(asset->text));
    else
        refuse(r, 404, "the page has no such file");
}

void dashboard_frame(struct request *r)
{
    const struct dashboard *b = request_daemon(r)->dashboard;
    char ancestors[2 * ACCESS_SITE], policy[sizeof(POLICY) + sizeof(ancestors)];
    if (!b->site[0] || !access_ancestors(ancestors, sizeof(ancestors), b->site)) {
        refuse(r, 404, "no site may show the page in a frame: run `jobctl dashboard --frame SITE`");
        return;
    }
    snprintf(policy, sizeof(policy), POLICY "%s", ancestors);
    request_set_header(r, "Content-Security-Policy", policy);
    request_set_header(r, "X-Frame-Options", NULL);
    dashboard_asset(r);
}
