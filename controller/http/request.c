/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what a request asks, and its answer; see request.h */
#include "controller/http/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "controller/base/client.h"
#include "controller/base/daemon.h"
#include "controller/http/server_internal.h"
#include "engine/base/json_make.h"

static const struct {
    enum err_code code;
    int           status;
    const char   *word;
} codes[] = {
    { ERR_USAGE, 400, "usage" },        { ERR_CONFLICT, 409, "conflict" },
    { ERR_NOT_FOUND, 404, "not_found" }, { ERR_SYSTEM, 503, "system" },
    { ERR_DATA, 400, "usage" },         { ERR_MEMORY, 503, "system" },
    { ERR_BUG, 500, "bug" },
};

struct daemon *request_daemon(const struct request *r)
{
    return r->listener->server->daemon;
}

const char *request_job(const struct request *r)
{
    return r->job;
}

int64_t *request_memo(struct request *r)
{
    return r->memo;
}

const json_t *request_body(const struct request *r)
{
    return r->json;
}

const char *request_query(const struct request *r, const char *key)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, key);
}

const char *request_header(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

int request_number(int64_t *out, struct request *r, const char *key, int64_t otherwise)
{
    const char *text = request_query(r, key);
    char *end;
    *out = otherwise;
    if (!text)
        return 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == 0 && end != text && !*end) {
        *out = value;
        return 0;
    }
    struct err err = { 0 };
    err_set(&err, ERR_USAGE, "%s=%.60s is not a whole number", key, text);
    request_fail(r, &err, NULL);
    return -1;
}

bool request_of_owner(struct request *r)
{
    struct err err = { 0 };
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info && unix_socket_check_peer(info->connect_fd, &err) == 0)
        return true;
    request_refuse(r, 403, "usage", "only root and the owner of this socket may connect", NULL);
    return false;
}

_Static_assert(API_SCHEMA == 2, "the text below says it");
static const char no_memory[] =
    "{\"schema\":2,\"error\":{\"code\":\"system\",\"text\":\"out of memory\"}}";

#define JSON_TYPE "application/json"

static void drop_header(struct request *r, const char *name)
{
    for (struct answer_header **at = &r->headers; *at; at = &(*at)->next) {
        struct answer_header *h = *at;
        if (strcmp(h->name, name) != 0)
            continue;
        *at = h->next;
        free(h->value);
        free(h);
        return;
    }
}

void request_set_header(struct request *r, const char *name, const char *value)
{
    drop_header(r, name);
    if (!value)
        return;
    struct answer_header *h = calloc(1, sizeof(*h));
    if (!h || !(h->value = strdup(value))) {
        free(h);
        r->no_memory = true;
        return;
    }
    h->name = name;
    h->next = r->headers;
    r->headers = h;
}

void request_add_headers(struct MHD_Response *response, const struct request *r, const char *type)
{
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (const struct answer_header *h = r->headers; h; h = h->next)
        MHD_add_response_header(response, h->name, h->value);
}

void request_answer_text(struct request *r, int status, const char *type, char *text)
{
    request_answer_bytes(r, status, type, text, text ? strlen(text) : 0);
}

void request_answer_bytes(struct request *r, int status, const char *type, char *text, size_t size)
{
    if (!text || r->no_memory) {
        free(text);
        status = 503;
        type = JSON_TYPE;
        text = strdup(no_memory);
        size = text ? strlen(text) : 0;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    r->answered = true;
    r->result = MHD_NO;
    if (!response) {
        free(text);
        return;
    }
    request_add_headers(response, r, type);
    r->result = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
}

void request_answer(struct request *r, int status, json_t *document)
{
    char *text = NULL;
    if (document && json_object_set_new(document, "schema", json_integer(API_SCHEMA)) == 0)
        text = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    request_answer_text(r, status, JSON_TYPE, text);
}

void request_refuse(struct request *r, int status, const char *word, const char *text, json_t *more)
{
    json_t *answer = json_make("{s:{s:s, s:s}}", "error", "code", word, "text", text);
    if (answer && more)
        json_object_update_recursive(answer, more);
    json_decref(more);
    request_answer(r, status, answer);
}

void request_fail(struct request *r, const struct err *err, json_t *more)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i].code == err->code) {
            if (codes[i].status >= 500)
                log_error(NULL, "%s %s: %s", r->route ? r->route->method : "",
                          r->route ? r->route->path : "", err->text);
            request_refuse(r, codes[i].status, codes[i].word, err->text, more);
            return;
        }
    }
    request_refuse(r, 500, "bug", err->text[0] ? err->text : "failed for an unknown reason", more);
}
