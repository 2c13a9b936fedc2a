/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - access to the page: links that work once, sessions of browsers, and the Host that a request may name
 *
 * Pure: no clock, no I/O.
 * A link has a token that is good for one session, within ACCESS_LINK_MS. A session has two secrets: a cookie, which
 * the browser keeps from scripts but sends to every port of this machine, and a key, which scripts of this port alone
 * can read and send as a header. A request needs both: neither another site nor another port has the two.
 * In a frame of another site a browser may send no cookie. A link for a frame gives a session that has the key alone,
 * which the page keeps in memory and nowhere else; such a link works in the frame page alone, which is served after
 * ACCESS_SITE was named (docs/SECURITY.md).
 * Secrets are compared in a time that does not depend on where they differ.
 */
#ifndef CONTROLLER_DASHBOARD_ACCESS_H
#define CONTROLLER_DASHBOARD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACCESS_SECRET    = 65,          /* 256 bits as hex digits, and the end */
    ACCESS_SITE      = 160,         /* "colab", or an origin such as https://hub.example.org:8000 */
    ACCESS_LINKS     = 8,           /* the oldest gives way to a ninth */
    ACCESS_SESSIONS  = 16,          /* the same */
    ACCESS_LINK_MS   = 600000,
    ACCESS_WRONG     = 10,          /* wrong tokens that are answered ... */
    ACCESS_WINDOW_MS = 60000        /* ... in this time; then none is looked at until it is over */
};

enum access_answer { ACCESS_GRANTED, ACCESS_DENIED, ACCESS_TOO_OFTEN };

struct access {
    struct {
        char    token[ACCESS_SECRET];       /* "": none */
        int64_t until_ms;
        bool    framed;
    } links[ACCESS_LINKS];
    struct {
        char cookie[ACCESS_SECRET], key[ACCESS_SECRET];     /* cookie "": of a frame */
    } sessions[ACCESS_SESSIONS];
    unsigned next_link, next_session;
    int64_t  window_ms;             /* since when wrong tokens are counted */
    int      wrong;
};

/* False for "" and NULL, also against each other. */
bool access_same(const char *a, const char *b);

/* Is `host` this machine at this port: 127.0.0.1:PORT, localhost:PORT or [::1]:PORT? A name that a foreign DNS resolves
 * to 127.0.0.1 is not. NULL: false. */
bool access_host_fits(const char *host, int port);

/* The header Origin: "http://" and such a host; NULL, as without one: true. */
bool access_origin_fits(const char *origin, int port);

/* The same by the proxy of Colab, "8000-m-s-1ab-c.us-west1-0.prod.colab.dev", where `site` is "colab". */
bool access_proxy_fits(const char *host, const char *site);
bool access_proxy_origin_fits(const char *origin, const char *site);

/* The sources of frame-ancestors in which the page may be shown; false: `site` is neither "colab" nor an origin with
 * https, or with http of this machine. */
bool access_ancestors(char *out, size_t size, const char *site);

void access_add_link(struct access *a, const char *token, bool framed, int64_t now_ms);
/* Granted: the token is used up. `framed`: it was asked for by the frame page, where tokens for frames work, and no
 * others. */
enum access_answer access_redeem(struct access *a, const char *token, bool framed, int64_t now_ms);

/* cookie "": a session of a frame */
void access_add_session(struct access *a, const char *cookie, const char *key);
/* `cookies`: the header Cookie; NULL for headers that were not sent. `framed`: sessions of frames, else the others. */
bool access_admits(const struct access *a, int port, const char *cookies, const char *key, bool framed);

/* The value of the cookie of this port, "" without one; two of it are none. */
void access_cookie(char out[ACCESS_SECRET], const char *cookies, int port);

#endif
