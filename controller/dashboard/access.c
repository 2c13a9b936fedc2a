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

/* ---- frames of other sites ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), e = strlen(end);
    return n > e && strcasecmp(text + n - e, end) == 0;
}

/* Letters, digits, dots and hyphens: a name, which cannot end a header or a policy. */
static size_t name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
}

bool access_proxy_fits(const char *host, const char *site)
{
    return host && strcmp(site, "colab") == 0 && host[name_length(host)] == '\0' &&
           (ends_with(host, ".prod.colab.dev") || ends_with(host, "-colab.googleusercontent.com"));
}

bool access_proxy_origin_fits(const char *origin, const char *site)
{
    return origin && strncmp(origin, "https://", 8) == 0 && access_proxy_fits(origin + 8, site);
}

static bool is_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 6 && text[digits] == '\0';
}

static bool is_origin(const char *site)
{
    const bool safe = strncmp(site, "https://", 8) == 0, plain = strncmp(site, "http://", 7) == 0;
    const char *name = site + (safe ? 8 : 7);
    const size_t n = safe || plain ? name_length(name) : 0;
    const bool here = (n == 9 && strncmp(name, "localhost", n) == 0) || (n == 9 && strncmp(name, "127.0.0.1", n) == 0);
    return n > 0 && name[0] != '.' && name[0] != '-' && (safe || here) &&
           (name[n] == '\0' || (name[n] == ':' && is_port(name + n + 1)));
}

/* A cell of Colab is a frame of googleusercontent.com in the page of Colab; all around a frame must be named. */
bool access_ancestors(char *out, size_t size, const char *site)
{
    const bool colab = strcmp(site, "colab") == 0;
    if (!colab && !is_origin(site))
        return false;
    return snprintf(out, size, "%s", colab ? "https://colab.research.google.com https://*.googleusercontent.com" : site) <
           (int)size;
}

/* ---- links and sessions ---- */

void access_add_link(struct access *a, const char *token, bool framed, int64_t now_ms)
{
    const unsigned i = a->next_link++ % ACCESS_LINKS;
    snprintf(a->links[i].token, sizeof(a->links[i].token), "%s", token);
    a->links[i].until_ms = now_ms + ACCESS_LINK_MS;
    a->links[i].framed = framed;
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

enum access_answer access_redeem(struct access *a, const char *token, bool framed, int64_t now_ms)
{
    bool granted = false;
    if (too_often(a, now_ms))
        return ACCESS_TOO_OFTEN;
    for (int i = 0; i < ACCESS_LINKS; i++) {
        const bool same = access_same(a->links[i].token, token);
        granted |= same && now_ms < a->links[i].until_ms && a->links[i].framed == framed;
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

bool access_admits(const struct access *a, int port, const char *cookies, const char *key, bool framed)
{
    char cookie[ACCESS_SECRET];
    bool admitted = false;
    access_cookie(cookie, cookies, port);
    for (int i = 0; i < ACCESS_SESSIONS; i++) {
        const bool of_frame = a->sessions[i].cookie[0] == '\0';
        const bool first = framed ? of_frame : access_same(a->sessions[i].cookie, cookie);
        admitted |= (int)first & (int)access_same(a->sessions[i].key, key);
    }
    return admitted;
}
