/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - see access.h */
#include "controller/dashboard/access.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool access_same(const char *a, const char *b)
{
    const size_t n = a ? strlen(a) : 0;
    unsigned differ = 0;
    if (!b || n == 0 || strlen(b) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned)(unsigned char)a[i] ^ (unsigned char)b[i];
    return differ == 0;
}

bool access_host_fits(const char *host, int port)
{
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    char expected[32];
    for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(expected, sizeof(expected), "%s:%d", names[i], port);
        if (strcasecmp(host, expected) == 0)
            return true;
    }
    return false;
}

bool access_origin_fits(const char *origin, int port)
{
    static const char scheme[] = "http://";
    return !origin || (strncmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
                       access_host_fits(origin + sizeof(scheme) - 1, port));
}

void access_add_link(struct access *a, const char *token, int64_t now_ms)
{
    const unsigned i = a->next_link++ % ACCESS_LINKS;
    snprintf(a->links[i].token, sizeof(a->links[i].token), "%s", token);
    a->links[i].until_ms = now_ms + ACCESS_LINK_MS;
}

/* A clock that was set back begins a new window as well. */
static bool too_often(struct access *a, int64_t now_ms)
{
    if (now_ms < a->window_ms || now_ms - a->window_ms >= ACCESS_WINDOW_MS) {
        a->window_ms = now_ms;
        a->wrong = 0;
    }
    return a->wrong >= ACCESS_WRONG;
}

enum access_answer access_redeem(struct access *a, const char *token, int64_t now_ms)
{
    bool granted = false;
    if (too_often(a, now_ms))
        return ACCESS_TOO_OFTEN;
    for (int i = 0; i < ACCESS_LINKS; i++) {
        const bool same = access_same(a->links[i].token, token);
        granted |= same && now_ms < a->links[i].until_ms;
        if (same)
            a->links[i].token[0] = '\0';
    }
    a->wrong += !granted;
    return granted ? ACCESS_GRANTED : ACCESS_DENIED;
}

void access_add_session(struct access *a, const char *cookie, const char *key)
{
    const unsigned i = a->next_session++ % ACCESS_SESSIONS;
    snprintf(a->sessions[i].cookie, sizeof(a->sessions[i].cookie), "%s", cookie);
    snprintf(a->sessions[i].key, sizeof(a->sessions[i].key), "%s", key);
}

void access_cookie(char out[ACCESS_SECRET], const char *cookies, int port)
{
    char name[32];
    int found = 0;
    const size_t n = (size_t)snprintf(name, sizeof(name), "jobctl_%d=", port);
    out[0] = '\0';
    for (const char *p = cookies ? cookies : ""; *p; p += strcspn(p, ";"), p += strspn(p, "; ")) {
        const size_t size = strcspn(p, ";");
        if (size <= n || size - n >= ACCESS_SECRET || strncmp(p, name, n) != 0)
            continue;
        snprintf(out, ACCESS_SECRET, "%.*s", (int)(size - n), p + n);
        found++;
    }
    if (found > 1)
        out[0] = '\0';
}

bool access_admits(const struct access *a, int port, const char *cookies, const char *key)
{
    char cookie[ACCESS_SECRET];
    bool admitted = false;
    access_cookie(cookie, cookies, port);
    for (int i = 0; i < ACCESS_SESSIONS; i++) {
        const bool both = (int)access_same(a->sessions[i].cookie, cookie) & (int)access_same(a->sessions[i].key, key);
        admitted |= both;
    }
    return admitted;
}
