/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - access to the page: one-time links, browser sessions, and the Host header that a request may have
 *
 * Pure: no clock, no I/O.
 * A link has a token for one session, valid for ACCESS_LINK_MS. A session has two secrets: a cookie, which
 * the browser keeps from scripts but sends to every port of this machine, and a key, which only scripts of this port
 * can read and send as a header. A request needs both; no other site or port has both. In a frame of another site, a
 * browser may send no cookie. A link for a frame gives a session with the key only, which the page keeps only in
 * memory; such a link works only in the frame page, which is served after a site was named (docs/SECURITY.md). Secrets
 * are compared in constant time.
 */
#ifndef CONTROLLER_DASHBOARD_ACCESS_H
#define CONTROLLER_DASHBOARD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACCESS_SECRET    = 65,          /* 256 bits as hex digits, and a NUL */
    ACCESS_SITE      = 160,         /* "colab", or an origin such as https://hub.example.org:8000 */
    ACCESS_LINKS     = 8,           /* a ninth replaces the oldest */
    ACCESS_SESSIONS  = 16,          /* likewise */
    ACCESS_LINK_MS   = 600000,
    ACCESS_WRONG     = 10,          /* number of wrong tokens that are answered ... */
    ACCESS_WINDOW_MS = 60000        /* ... within this time; further ones are refused until it is over */
};

enum access_answer { ACCESS_GRANTED, ACCESS_DENIED, ACCESS_TOO_OFTEN };

struct access {
    struct {
        char    token[ACCESS_SECRET];       /* "": none */
        int64_t until_ms;
        bool    framed;
    } links[ACCESS_LINKS];
    struct {
        char cookie[ACCESS_SECRET], key[ACCESS_SECRET];     /* cookie "": session of a frame */
    } sessions[ACCESS_SESSIONS];
    unsigned next_link, next_session;
    int64_t  window_ms;             /* start of the time in which wrong tokens are counted */
    int      wrong;
};

/* Compares in constant time; false for "" and NULL, also against each other. */
bool access_same(const char *a, const char *b);

/* Does `host` mean this machine at this port: 127.0.0.1:PORT, localhost:PORT or [::1]:PORT? A name that a foreign
 * DNS resolves to 127.0.0.1 does not. NULL: false. */
bool access_host_fits(const char *host, int port);

/* Is the header Origin "http://" and such a host? NULL, the header is missing: true. */
bool access_origin_fits(const char *origin, int port);

/* The same through Colab's proxy, "8000-m-s-1ab-c.us-west1-0.prod.colab.dev", if `site` is "colab". */
bool access_proxy_fits(const char *host, const char *site);
bool access_proxy_origin_fits(const char *origin, const char *site);

/* The frame-ancestors sources that may show the page; false: `site` is neither "colab" nor an origin with https, or
 * with http on this machine. */
bool access_ancestors(char *out, size_t size, const char *site);

void access_add_link(struct access *a, const char *token, bool framed, int64_t now_ms);
/* Granted: the token is used up. `framed`: requested by the frame page, where only tokens for frames work. */
enum access_answer access_redeem(struct access *a, const char *token, bool framed, int64_t now_ms);

/* cookie "": session of a frame */
void access_add_session(struct access *a, const char *cookie, const char *key);
/* `cookies`: the header Cookie; NULL for headers that were not sent. `framed`: checks sessions of frames, else the
 * others. */
bool access_admits(const struct access *a, int port, const char *cookies, const char *key, bool framed);

/* The value of this port's cookie; "" if there is none, or more than one. */
void access_cookie(char out[ACCESS_SECRET], const char *cookies, int port);

#endif
