/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl-fetch: models of a Hugging Face hub into the cache of this host
 *
 *   jobctl-fetch [--check] [--json] [--part PARTS] [--tries N] NAME...     names of hub_name.h
 *   jobctl-fetch [--check] [--json] [--tries N] --spec FILE                those of a job spec (hub_spec.h)
 *
 * Output: for each name a sentence, or with --json an object {schema, cache, host, names: [{key, name, ...}]} whose
 * rows end as fetch_json(). --check downloads nothing.  What is said on the way is on stderr, its last line the error.
 * The exit code is one of engine/contract/exit_code.h.  An agent runs it once per node before the ranks, which read
 * the cache only; `jobctl fetch` runs it for users.
 */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/fetch/fetch.h"
#include "agent/fetch/fetch_http.h"
#include "agent/fetch/fetch_list.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_make.h"
#include "engine/base/json_memory.h"
#include "engine/contract/progress.h"
#include "engine/hub/hub_cache.h"
#include "engine/hub/hub_spec.h"

enum { TRIES = 8, NAMES = 64 };

struct task {
    struct hub_spec_name name[NAMES];
    int              n;
    json_t          *spec; /* the names point into it; NULL: into our arguments */
    const char      *part;
    int              tries;
    bool             check, json;
    struct progress *agent;
    json_t          *rows;
};

/* --- arguments --------------------------------------------------------------------------------- */

static int take_spec(struct task *t, const char *file, struct err *err)
{
    json_error_t why;
    t->spec = json_load_file(file, 0, &why);
    if (!t->spec)
        return err_set(err, ERR_USAGE, "%s is not a job spec in JSON: %s", file, why.text);
    json_t *inner = json_object_get(t->spec, "spec");
    t->n = hub_spec_names(t->name, json_is_object(inner) ? inner : t->spec);
    return 0;
}

static int take_names(struct task *t, int argc, char **argv, const char *spec, struct err *err)
{
    if (spec && optind < argc)
        return err_set(err, ERR_USAGE, "--spec cannot be combined with names of models");
    if (spec)
        return take_spec(t, spec, err);
    if (optind == argc || argc - optind > NAMES)
        return err_set(err, ERR_USAGE, "name 1 to %d models: jobctl-fetch hf://OWNER/REPO", NAMES);
    for (int i = optind; i < argc; i++)
        t->name[t->n++] = (struct hub_spec_name){.key = "", .text = argv[i], .parts = t->part};
    return 0;
}

static int take_arguments(struct task *t, int argc, char **argv, struct err *err)
{
    static const struct option options[] = {{"check", no_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
                                            {"part", required_argument, NULL, 'p'},
                                            {"spec", required_argument, NULL, 's'},
                                            {"tries", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
    const char *spec = NULL;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        t->check |= c == 'c';
        t->json |= c == 'j';
        t->part = c == 'p' ? optarg : t->part;
        spec = c == 's' ? optarg : spec;
        t->tries = c == 't' ? atoi(optarg) : t->tries;
        if (c == '?')
            return err_set(err, ERR_USAGE,
                           "expected [--check] [--json] [--part PARTS] [--tries N] NAME... or --spec FILE");
    }
    if (t->tries < 1)
        return err_set(err, ERR_USAGE, "--tries: expected a whole number of at least 1");
    return take_names(t, argc, argv, spec, err);
}

/* --- one name ---------------------------------------------------------------------------------- */

static void tell(struct task *t, int i, const struct fetch_view *v)
{
    json_t *row = json_make("{s:s, s:s}", "key", t->name[i].key, "name", t->name[i].text), *rest = fetch_json(v);
    json_object_update(row, rest);
    json_decref(rest);
    if (t->json)
        json_array_append_new(t->rows, row);
    else
        printf("%s\n", v->text);
    if (!t->json && v->path[0])
        printf("  %s\n", v->path);
    if (!t->json)
        json_decref(row);
}

/* With --check a failure is in the answer. */
static int treat(struct task *t, int i, struct fetch_http *h, struct err *err)
{
    struct hub_name n;
    struct fetch_view v;
    struct fetch_list list;
    struct err why = {0};
    if (hub_name_parse(&n, t->name[i].text, err) < 0 ||
        fetch_look(&v, &list, h, &n, t->name[i].parts, &why, err) < 0)
        return -1;
    int rc = 0;
    if (!t->check && (v.state == FETCH_ABSENT || v.state == FETCH_REFUSED)) {
        *err = why;
        rc = -1;
    } else if (!t->check) {
        rc = fetch_get(&v, &list, h, &n, t->name[i].parts, t->agent, err);
    }
    if (rc == 0)
        tell(t, i, &v);
    fetch_list_free(&list);
    return rc;
}

/* --- all --------------------------------------------------------------------------------------- */

static int run(struct task *t, struct err *err)
{
    char dir[PATH_MAX] = "";
    struct fetch_http *h = NULL;
    int rc = fetch_http_open(&h, t->tries, err);
    for (int i = 0; i < t->n && rc == 0; i++)
        rc = treat(t, i, h, err);
    if (rc == 0 && t->json && hub_cache_dir(dir, err) == 0) {
        json_t *all = json_make("{s:i, s:s, s:s, s:O}", "schema", 1, "cache", dir, "host", fetch_http_host(h), "names",
                                t->rows);
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(all);
    }
    fetch_http_close(h);
    return rc;
}

static int exit_code(const struct err *err)
{
    return err->code == ERR_SYSTEM && err->errnum == ENETUNREACH ? EXIT_NETWORK : exit_code_of(err);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct task t = {.part = "", .tries = TRIES};
    json_memory_open("jobctl-fetch", EXIT_HOST_MEMORY);
    t.rows = json_array();
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        printf("jobctl-fetch " JOBCTL_VERSION " (libcurl %s)\n", curl_version_info(CURLVERSION_NOW)->version);
        return EXIT_DONE;
    }
    if (take_arguments(&t, argc, argv, &err) == 0 && progress_open(&t.agent, &err) == 0) {
        signal(SIGTERM, SIG_DFL); /* what is there stays, and the next one goes on */
        run(&t, &err);
    }
    progress_close(t.agent);
    json_decref(t.rows);
    json_decref(t.spec);
    if (err.code)
        fprintf(stderr, "jobctl-fetch: %s\n", err.text);
    return exit_code(&err);
}
