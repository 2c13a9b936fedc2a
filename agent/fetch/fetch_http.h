/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_http.h - requests to a Hugging Face hub, and to the addresses that it redirects to
 *
 *   HF_ENDPOINT              the hub; https://huggingface.co
 *   HF_TOKEN                 else the file $HF_TOKEN_PATH, $HF_HOME/token, as `hf auth login` writes it
 *   HF_HUB_DOWNLOAD_TIMEOUT  seconds without a byte after which a connection counts as lost; 30
 *   CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_FILE, and the proxies of libcurl
 *
 * The token goes to the hub's scheme, host and port and nowhere else: redirects are followed here, one by one. No
 * message contains the token, or a redirect's address, which may be signed.
 */
#ifndef AGENT_FETCH_FETCH_HTTP_H
#define AGENT_FETCH_FETCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct fetch_http;
struct hub_name;

enum { FETCH_HTTP_URL = 4096 };

struct fetch_reply {
    long    status;
    char    etag[80];             /* as announced by the hub before a redirect; "": not announced */
    int64_t from;                 /* offset of the first byte received; 0: the first */
    int64_t retry_after_s;        /* -1: not announced */
    char    code[48], said[160];  /* the hub's own text for an error */
    char    host[200];            /* the host that answered last */
    bool    again;                /* after a failure: a later try may succeed */
};

/* Bytes of an answer of status 200 or 206. -1 with err set ends the request. */
typedef int fetch_sink(void *arg, const struct fetch_reply *r, const void *bytes, size_t n, struct err *err);

int fetch_http_open(struct fetch_http **out, int tries, struct err *err);
void fetch_http_close(struct fetch_http *h); /* accepts NULL */

/* "https://huggingface.co" */
const char *fetch_http_endpoint(const struct fetch_http *h);
/* "huggingface.co" */
const char *fetch_http_host(const struct fetch_http *h);
/* Appends text to a URL; everything except letters, digits and "-._~" (and "/" if `slashes`) becomes %XX. */
void fetch_http_escape(char url[FETCH_HTTP_URL], const char *text, bool slashes);

/* Sends one request. ERR_USAGE: refused, a retry does not help; ERR_SYSTEM with ENETUNREACH: the network failed or
 * the hub is overloaded, see reply->again; other codes: from the sink. `from`: the first byte wanted. */
int fetch_http_get(struct fetch_http *h, const struct hub_name *n, const char *url, int64_t from, fetch_sink *sink,
                   void *arg, struct fetch_reply *reply, struct err *err);

/* After a failure with reply->again: waits and clears err, unless there were too many tries; *tries counts requests
 * that brought no new byte. */
bool fetch_http_again(const struct fetch_http *h, const struct fetch_reply *reply, int *tries, struct err *err);

#endif
