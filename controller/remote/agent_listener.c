/* SPDX-License-Identifier: Apache-2.0 */
/* agent_listener.c - see agent_listener.h */
#include "controller/remote/agent_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "agent/wire/tls_listener.h"
#include "controller/spec/config.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

struct expected_agent {
    struct expected_agent *next;
    expected_agent_fn      came;
    void                  *arg;
    char                   name[TLS_PSK_NAME];
    unsigned char          key[TLS_PSK_KEY];
    char                   path[PATH_MAX]; /* of its file */
};

static struct {
    uv_loop_t             *loop;
    struct tls_listener   *tls;     /* NULL: no agent is expected */
    struct expected_agent *expected_agents;
} listening;

static struct expected_agent *find(const char *name)
{
    struct expected_agent *g = listening.expected_agents;
    while (g && strcmp(g->name, name) != 0)
        g = g->next;
    return g;
}

/* ---- an agent connects ---- */

static bool find_key(void *arg, const char *name, unsigned char key[TLS_PSK_KEY])
{
    const struct expected_agent *g = find(name);
    (void)arg;
    if (g)
        memcpy(key, g->key, TLS_PSK_KEY);
    return g != NULL;
}

static void on_came(void *arg, struct byte_stream *s)
{
    struct expected_agent *g = find(byte_stream_key_name(s));
    char address[BYTE_STREAM_ADDRESS] = "";
    (void)arg;
    byte_stream_address(s, true, address);
    if (g)
        g->came(g->arg, s, address);
    else
        byte_stream_close(s); /* no longer expected */
}

/* ---- the file for the agent: addresses and key ---- */

static int check_dir(const char *dir, struct err *err)
{
    struct stat st;
    if (lstat(dir, &st) < 0)
        return err_set(err, ERR_SYSTEM, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, ERR_CONFLICT, "other users may enter %s; not writing a key there", dir);
    return 0;
}

/* Writes the file atomically: a temporary file, then rename. */
static int write_file(const char *path, const char *text, struct err *err)
{
    char beside[PATH_MAX + 8];
    snprintf(beside, sizeof(beside), "%s.new", path);
    unlink(beside);
    int fd = safe_open(beside, O_WRONLY | O_CREAT | O_EXCL, NULL);
    bool whole = fd >= 0 && write_all(fd, text, strlen(text)) == 0 && fsync(fd) == 0;
    if (fd >= 0 && close(fd) < 0)
        whole = false;
    if (whole && rename(beside, path) == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    unlink(beside);
    return -1;
}

static int publish(struct expected_agent *g, json_t *addresses, struct err *err)
{
    char hex[2 * TLS_PSK_KEY + 1];
    if (tls_psk_key_draw(hex) < 0 || tls_psk_key_parse(g->key, hex) < 0) {
        json_decref(addresses);
        return err_set(err, ERR_SYSTEM, "no random numbers for a key");
    }
    json_t *said = json_make("{s:o, s:i, s:s, s:s}", "addresses", addresses, "port",
                             tls_listener_port(listening.tls), "key", hex, "name", g->name);
    char *text = said ? json_dumps(said, JSON_COMPACT) : NULL;
    int rc = text ? write_file(g->path, text, err)
                  : err_set(err, ERR_MEMORY, "out of memory for an agent's key");
    if (text)
        explicit_bzero(text, strlen(text));
    explicit_bzero(hex, sizeof(hex));
    free(text);
    json_decref(said);
    return rc;
}

/* ---- open, close ---- */

static json_t *addresses(struct err *err)
{
    char only[256];
    const char *source = config_call_address(only);
    if (!only[0])
        return tls_listener_addresses();
    if (strcmp(only, "none") == 0) {
        err_set(err, ERR_USAGE, "%s is not an address", source);
        return NULL;
    }
    json_t *list = tls_listener_addresses_of(only, err);
    if (!list)
        err_prefix(err, "%s: ", source);
    return list;
}

static int open_listener(uv_loop_t *loop, struct err *err)
{
    const struct tls_listener_hooks hooks = { .key = find_key, .came = on_came };
    if (listening.tls)
        return 0;
    listening.loop = loop;
    if (tls_listener_open(&listening.tls, loop, &hooks, err) < 0)
        return -1;
    log_info(NULL, "listening for agents on port %d", tls_listener_port(listening.tls));
    return 0;
}

static void close_listener(void)
{
    if (listening.expected_agents || !listening.tls)
        return;
    log_info(NULL, "port %d closed: no agent is expected", tls_listener_port(listening.tls));
    tls_listener_close(listening.tls);
    listening.tls = NULL;
}

int agent_listener_expect(struct expected_agent **out, uv_loop_t *loop, const char *run_dir, const char *name,
                          expected_agent_fn came, void *arg, struct err *err)
{
    json_t *told = addresses(err);
    struct expected_agent *g = told ? calloc(1, sizeof(*g)) : NULL;
    if (!g) {
        json_decref(told);
        return told ? err_set(err, ERR_MEMORY, "out of memory for an agent's key") : -1;
    }
    *g = (struct expected_agent){ .came = came, .arg = arg };
    snprintf(g->name, sizeof(g->name), "%s", name);
    if (snprintf(g->path, sizeof(g->path), "%s/" RUN_DIR_CALL, run_dir) >= (int)sizeof(g->path) ||
        check_dir(run_dir, err) < 0 || open_listener(loop, err) < 0) {
        json_decref(told);
        free(g);
        return -1;
    }
    if (publish(g, told, err) < 0) {
        free(g);
        close_listener();
        return -1;
    }
    g->next = listening.expected_agents;
    listening.expected_agents = g;
    *out = g;
    return 0;
}

void agent_listener_forget(struct expected_agent *g)
{
    struct expected_agent **p = &listening.expected_agents;
    if (!g)
        return;
    while (*p != g)
        p = &(*p)->next;
    *p = g->next;
    unlink(g->path);
    explicit_bzero(g->key, sizeof(g->key));
    free(g);
    close_listener();
}
