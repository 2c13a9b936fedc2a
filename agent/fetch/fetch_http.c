/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_http.c - see fetch_http.h
 *
 * libcurl's own sentences may quote a URL: only the sentence of its error code is told.
 */
#include "agent/fetch/fetch_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/hub/hub_cache.h"

enum { HOPS = 6, TOKEN = 512, WAIT_MS = 250, WAIT_MOST_MS = 30000, AFTER_MOST_S = 300, IDLE_S = 30 };

struct fetch_http {
    CURL *curl;
    char  endpoint[500], host[200];
    char  bearer[TOKEN + 32]; /* the header; "": no token */
    int   tries;
    long  idle_s;
};

/* One request. */
struct exchange {
    struct fetch_http  *h;
    struct fetch_reply *reply;
    bool                of_hub; /* the address is the hub's own */
    fetch_sink         *sink;
    void               *arg;
    struct err         *err;
};

/* --- addresses --------------------------------------------------------------------------------- */

static void part_of(char *out, size_t room, CURLU *u, CURLUPart part)
{
    char *text = NULL;
    out[0] = '\0';
    if (curl_url_get(u, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK)
        snprintf(out, room, "%s", text);
    curl_free(text);
}

/* "https://host:443", the host alone; false: no address of http or https. */
static bool origin_of(char origin[300], char host[200], const char *url)
{
    char scheme[16], port[16];
    CURLU *u = curl_url();
    const bool good = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK;
    if (good) {
        part_of(scheme, sizeof(scheme), u, CURLUPART_SCHEME);
        part_of(host, 200, u, CURLUPART_HOST);
        part_of(port, sizeof(port), u, CURLUPART_PORT);
        snprintf(origin, 300, "%s://%s:%s", scheme, host, port);
    }
    curl_url_cleanup(u);
    return good && host[0] && (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
}

static bool is_of_hub(const struct fetch_http *h, const char *url)
{
    char a[300], b[300], host[200];
    return origin_of(a, host, url) && origin_of(b, host, h->endpoint) && strcasecmp(a, b) == 0;
}

void fetch_http_escape(char url[FETCH_HTTP_URL], const char *text, bool slashes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    size_t at = strlen(url);
    for (; *text && at + 4 < FETCH_HTTP_URL; text++)
        if (strchr(plain, *text) || (slashes && *text == '/'))
            url[at++] = *text;
        else
            at += (size_t)snprintf(url + at, 4, "%%%02X", (unsigned char)*text);
    url[at] = '\0';
}

/* --- settings ---------------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* The first line of the file, without blanks around it. */
static void read_token(char token[TOKEN])
{
    char path[PATH_MAX], text[TOKEN];
    const char *own = variable("HF_TOKEN_PATH");
    if (!own && hub_cache_home(path, NULL) == 0 && strlen(path) + 7 < sizeof(path))
        own = strcat(path, "/token");
    const int fd = own ? safe_open_linked(own, O_RDONLY, NULL) : -1;
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    const char *begin = text + strspn(text, " \t\r\n");
    snprintf(token, TOKEN, "%.*s", (int)strcspn(begin, " \t\r\n"), begin);
    explicit_bzero(text, sizeof(text));
}

/* A token with a line break would be a second header. */
static int find_token(struct fetch_http *h, struct err *err)
{
    char token[TOKEN] = "";
    const char *own = variable("HF_TOKEN") ? variable("HF_TOKEN") : variable("HUGGING_FACE_HUB_TOKEN");
    if (own && strlen(own) >= sizeof(token))
        return err_set(err, ERR_USAGE, "HF_TOKEN is longer than %d bytes: this is not a token of a hub", TOKEN - 1);
    if (own)
        snprintf(token, sizeof(token), "%.*s", (int)strcspn(own, " \t\r\n"), own);
    else
        read_token(token);
    if (token[0])
        snprintf(h->bearer, sizeof(h->bearer), "Authorization: Bearer %s", token);
    explicit_bzero(token, sizeof(token));
    return 0;
}

static int find_endpoint(struct fetch_http *h, struct err *err)
{
    char origin[300];
    const char *own = variable("HF_ENDPOINT");
    snprintf(h->endpoint, sizeof(h->endpoint), "%s", own ? own : "https://huggingface.co");
    for (size_t n = strlen(h->endpoint); n > 0 && h->endpoint[n - 1] == '/';)
        h->endpoint[--n] = '\0';
    return origin_of(origin, h->host, h->endpoint)
               ? 0 : err_set(err, ERR_USAGE, "HF_ENDPOINT is \"%.100s\"; expected an address such as "
                             "https://huggingface.co", own ? own : "");
}

static void find_certificates(CURL *c)
{
    static const char *const names[] = {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (variable(names[i])) {
            curl_easy_setopt(c, CURLOPT_CAINFO, variable(names[i]));
            return;
        }
}

int fetch_http_open(struct fetch_http **out, int tries, struct err *err)
{
    const char *idle = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    struct fetch_http *h = calloc(1, sizeof(*h));
    if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(h->curl = curl_easy_init())) {
        fetch_http_close(h);
        return err_set(err, ERR_MEMORY, "no memory for a download");
    }
    h->tries = tries;
    h->idle_s = idle && atol(idle) > 0 ? atol(idle) : IDLE_S;
    if (find_endpoint(h, err) < 0 || find_token(h, err) < 0) {
        fetch_http_close(h);
        return -1;
    }
    *out = h;
    return 0;
}

void fetch_http_close(struct fetch_http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    explicit_bzero(h->bearer, sizeof(h->bearer));
    free(h);
    curl_global_cleanup();
}

const char *fetch_http_endpoint(const struct fetch_http *h)
{
    return h->endpoint;
}

const char *fetch_http_host(const struct fetch_http *h)
{
    return h->host;
}

/* --- one answer -------------------------------------------------------------------------------- */

/* W/"abc" is abc. */
static void take_etag(char *out, size_t room, const char *value)
{
    value += strncmp(value, "W/", 2) == 0 ? 2 : 0;
    value += *value == '"';
    snprintf(out, room, "%.*s", (int)strcspn(value, "\""), value);
}

static void take_header(struct exchange *x, const char *name, const char *value)
{
    struct fetch_reply *r = x->reply;
    if (strcasecmp(name, "retry-after") == 0)
        r->retry_after_s = strspn(value, "0123456789") > 0 ? atoll(value) : -1;
    else if (strcasecmp(name, "content-range") == 0 && strncasecmp(value, "bytes ", 6) == 0)
        r->from = atoll(value + 6);
    else if (!x->of_hub)
        return; /* a store has etags of its own */
    else if (strcasecmp(name, "x-linked-etag") == 0 || (strcasecmp(name, "etag") == 0 && !r->etag[0]))
        take_etag(r->etag, sizeof(r->etag), value);
    else if (strcasecmp(name, "x-error-code") == 0)
        snprintf(r->code, sizeof(r->code), "%s", value);
    else if (strcasecmp(name, "x-error-message") == 0)
        snprintf(r->said, sizeof(r->said), "%s", value);
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct exchange *x = user;
    char line[1024];
    snprintf(line, sizeof(line), "%.*s", (int)(size * count), bytes);
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        const char *blank = strchr(line, ' ');
        x->reply->status = blank ? atol(blank) : 0;
        x->reply->from = 0;
        return size * count;
    }
    char *colon = strchr(line, ':');
    if (colon) {
        *colon = '\0';
        take_header(x, line, colon + 1 + strspn(colon + 1, " \t"));
    }
    return size * count;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct exchange *x = user;
    const bool wanted = x->reply->status == 200 || x->reply->status == 206;
    if (wanted && x->sink(x->arg, x->reply, bytes, size * count, x->err) < 0)
        return 0;
    return size * count;
}

static CURLcode perform(struct exchange *x, const char *url, int64_t from)
{
    CURL *c = x->h->curl;
    char range[40];
    struct curl_slist *headers = x->of_hub && x->h->bearer[0] ? curl_slist_append(NULL, x->h->bearer) : NULL;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "jobctl/" JOBCTL_VERSION);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, x->h->idle_s);
    curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    find_certificates(c);
    snprintf(range, sizeof(range), "%lld-", (long long)from);
    if (from > 0)
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    const CURLcode code = curl_easy_perform(c);
    curl_slist_free_all(headers);
    return code;
}

/* --- failures ---------------------------------------------------------------------------------- */

static int network(struct fetch_reply *r, struct err *err, const char *host, const char *why)
{
    r->again = true;
    err_set(err, ERR_SYSTEM, "no answer from %.120s: %s", host, why);
    if (err)
        err->errnum = ENETUNREACH;
    return -1;
}

static int judge_code(struct exchange *x, CURLcode code)
{
    if (code == CURLE_OK)
        return 0;
    if (x->err->code != ERR_NONE) /* of the sink */
        return -1;
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return err_set(x->err, ERR_USAGE, "the certificate of %.120s is not trusted here: set SSL_CERT_FILE to the "
                       "certificates of this network's proxy, or install ca-certificates", x->reply->host);
    return network(x->reply, x->err, x->reply->host, curl_easy_strerror(code));
}

static int judge_status(struct exchange *x, const struct hub_name *n)
{
    struct fetch_reply *r = x->reply;
    const char *colon = r->said[0] ? ": " : "";
    const bool token = x->h->bearer[0] != '\0';
    if (r->status == 401)
        return err_set(x->err, ERR_USAGE, "%s/%s: %.100s %s (HTTP 401): check the name, and %s with access to it",
                       n->owner, n->repo, r->host, token ? "rejects the token" : "asks for a token",
                       token ? "set HF_TOKEN to a token" : "set HF_TOKEN, or log in with `hf auth login` as a user");
    if (r->status == 403)
        return err_set(x->err, ERR_USAGE, "%s/%s: access is restricted (HTTP 403): accept its conditions at %.200s/%s/%s "
                       "as the user of the token%s", n->owner, n->repo, x->h->endpoint, n->owner, n->repo,
                       token ? "" : ", and set HF_TOKEN");
    if (r->status == 404)
        return err_set(x->err, ERR_USAGE, "%s/%s at %.60s is not on %.100s (HTTP 404%s%.150s): check owner, repository, "
                       "revision and file", n->owner, n->repo, n->revision, r->host, colon, r->said);
    if (r->status == 408 || r->status == 425 || r->status == 429 || r->status >= 500) {
        char why[80];
        snprintf(why, sizeof(why), "HTTP status %ld", r->status);
        return network(r, x->err, r->host, why);
    }
    return err_set(x->err, ERR_USAGE, "%s/%s: %.100s answers with HTTP status %ld%s%.150s", n->owner, n->repo, r->host,
                   r->status, colon, r->said);
}

/* --- a request, with its redirects ------------------------------------------------------------- */

/* *url becomes the next address; -1: it must not be followed. */
static int follow(struct exchange *x, char **url)
{
    char *next = NULL, origin[300], host[200];
    curl_easy_getinfo(x->h->curl, CURLINFO_REDIRECT_URL, &next);
    if (!next || !origin_of(origin, host, next))
        return err_set(x->err, ERR_USAGE, "%.120s redirects without an address (HTTP status %ld)", x->reply->host,
                       x->reply->status);
    if (strncmp(x->h->endpoint, "https:", 6) == 0 && strncmp(origin, "https:", 6) != 0)
        return err_set(x->err, ERR_USAGE, "%.120s redirects to %.120s, which is not encrypted; jobctl does not follow",
                       x->reply->host, host);
    char *copy = strdup(next);
    if (!copy)
        return err_set(x->err, ERR_MEMORY, "no memory for a download");
    free(*url);
    *url = copy;
    return 0;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

int fetch_http_get(struct fetch_http *h, const struct hub_name *n, const char *url, int64_t from, fetch_sink *sink,
                   void *arg, struct fetch_reply *reply, struct err *err)
{
    char origin[300], *at = strdup(url);
    struct exchange x = {.h = h, .reply = reply, .sink = sink, .arg = arg, .err = err};
    int rc = at ? 0 : err_set(err, ERR_MEMORY, "no memory for a download");
    *reply = (struct fetch_reply){.retry_after_s = -1};
    for (int hop = 0; rc == 0; hop++) {
        x.of_hub = is_of_hub(h, at);
        if (!origin_of(origin, reply->host, at) || hop == HOPS)
            rc = err_set(err, ERR_USAGE, "%.120s redirects too many times", h->host);
        else if ((rc = judge_code(&x, perform(&x, at, from))) == 0 && !is_redirect(reply->status))
            break;
        else if (rc == 0)
            rc = follow(&x, &at);
    }
    free(at);
    return rc < 0 || reply->status == 200 || reply->status == 206 ? rc : judge_status(&x, n);
}

bool fetch_http_again(const struct fetch_http *h, const struct fetch_reply *reply, int *tries, struct err *err)
{
    int64_t wait_ms = WAIT_MS;
    if (!reply->again || ++*tries >= h->tries)
        return false;
    for (int i = 1; i < *tries && wait_ms < WAIT_MOST_MS; i++)
        wait_ms *= 2;
    if (wait_ms > WAIT_MOST_MS)
        wait_ms = WAIT_MOST_MS;
    if (reply->retry_after_s > AFTER_MOST_S)
        return false;
    if (reply->retry_after_s * 1000 > wait_ms)
        wait_ms = reply->retry_after_s * 1000;
    fprintf(stderr, "jobctl-fetch: %s; trying again in %.2g s (%d of %d)\n", err->text, 1e-3 * (double)wait_ms, *tries,
            h->tries - 1);
    *err = (struct err){0};
    clock_wait(-1, (int)wait_ms);
    return true;
}
