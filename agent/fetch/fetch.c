/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - see fetch.h */
#include "agent/fetch/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "agent/fetch/fetch_blob.h"
#include "agent/fetch/fetch_http.h"
#include "agent/fetch/fetch_list.h"
#include "agent/fetch/fetch_progress.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/hub/hub_cache.h"

static const char *const states[] = {
    [FETCH_THERE] = "there", [FETCH_MISSING] = "missing", [FETCH_ABSENT] = "absent", [FETCH_REFUSED] = "refused"};

static bool is_network(const struct err *err)
{
    return err->code == ERR_SYSTEM && err->errnum == ENETUNREACH;
}

/* --- looking ----------------------------------------------------------------------------------- */

static void pin(struct fetch_view *v, const struct hub_name *n, const char *commit)
{
    snprintf(v->commit, sizeof(v->commit), "%s", commit);
    hub_name_text(v->pinned, n, commit);
}

static struct fetch_blob blob_of(const struct fetch_list *l, int i, const struct hub_name *n)
{
    return (struct fetch_blob){.name = n, .commit = l->commit, .path = l->file[i].path, .digest = l->digest[i],
                               .bytes = l->file[i].bytes};
}

static void count(struct fetch_view *v, const struct fetch_list *l, const struct hub_name *n)
{
    for (int i = 0; i < l->n; i++) {
        const struct fetch_blob b = blob_of(l, i, n);
        if (!l->file[i].wanted)
            continue;
        v->files++;
        v->bytes += b.bytes;
        if (fetch_blob_is_there(&b))
            continue;
        v->missing++;
        v->missing_bytes += b.bytes - fetch_blob_has(&b);
    }
}

/* "OWNER/REPO at COMMIT: 3 files, 3.2 GB, of which 1 (1.1 GB) is to be downloaded from HOST" */
static void describe(struct fetch_view *v, const struct fetch_http *h, const struct hub_name *n)
{
    char all[FETCH_SIZE], part[FETCH_SIZE], more[200] = ", all in the cache";
    if (v->missing)
        snprintf(more, sizeof(more), ", of which %d (%s) will be downloaded from %.100s", v->missing,
                 fetch_progress_size(part, v->missing_bytes), h ? fetch_http_host(h) : "");
    snprintf(v->text, sizeof(v->text), "%s/%s at commit %.12s: %d file%s, %s%s", n->owner, n->repo, v->commit, v->files,
             v->files == 1 ? "" : "s", fetch_progress_size(all, v->bytes), more);
}

/* false: not all of it is there; why: what is missing. */
static bool look_in_cache(struct fetch_view *v, const struct hub_name *n, const char *parts, struct err *why)
{
    char commit[HUB_COMMIT];
    struct hub_cache_size size;
    if (hub_cache_find_size(v->path, &size, n, parts, why) < 0 || !hub_cache_commit(commit, n))
        return false;
    pin(v, n, commit);
    v->state = FETCH_THERE;
    v->files = size.files;
    v->bytes = size.bytes;
    describe(v, NULL, n);
    return true;
}

static int refuse_names(const struct fetch_list *l, const struct hub_name *n, struct err *why)
{
    if (n->file[0])
        return err_set(why, ERR_USAGE, "%s/%s has no file or folder %.200s at revision %.60s; it has %s%s", n->owner,
                       n->repo, n->file, n->revision, l->n > 0 ? l->file[0].path : "no files", l->n > 1 ? ", ..." : "");
    return err_set(why, ERR_USAGE, "%s/%s has no weights, tokenizer or configuration at revision %.60s", n->owner,
                   n->repo, n->revision);
}

/* What to open, or the folder of the commit where there are no weights to open. */
static void settle_path(struct fetch_view *v, const struct hub_name *n, const char *parts)
{
    struct hub_name at = *n;
    char part[HUB_COMMIT + 16];
    snprintf(at.revision, sizeof(at.revision), "%s", v->commit);
    snprintf(part, sizeof(part), "snapshots/%s", v->commit);
    if (hub_cache_find(v->path, &at, parts, NULL) < 0)
        hub_cache_place(v->path, n, part, NULL);
}

/* A job needs weights; who fetches without --part takes whatever there is. */
static int check_names(const struct fetch_list *l, const struct hub_name *n, const char *parts, int wanted,
                       struct err *why)
{
    char missing[300];
    if (wanted == 0)
        return refuse_names(l, n, why);
    if (!parts[0] || hub_select_is_whole(l->file, l->n, n->file, parts, missing, sizeof(missing)))
        return 0;
    return err_set(why, ERR_USAGE, "%s/%s lacks %s for %s at revision %.60s: this model cannot be opened", n->owner,
                   n->repo, missing, parts, n->revision);
}

static void look_at_hub(struct fetch_view *v, struct fetch_list *l, struct fetch_http *h, const struct hub_name *n,
                        const char *parts, struct err *why)
{
    char path[PATH_MAX];
    struct err none = {0};
    const bool patient = hub_cache_find(path, n, parts, &none) < 0;
    v->state = FETCH_REFUSED;
    if (fetch_list_ask(l, h, n, patient, why) < 0)
        return;
    pin(v, n, l->commit);
    if (check_names(l, n, parts, hub_select(l->file, l->n, n->file, parts), why) < 0)
        return;
    count(v, l, n);
    v->state = v->missing ? FETCH_MISSING : FETCH_THERE;
    describe(v, h, n);
    if (v->state == FETCH_THERE)
        settle_path(v, n, parts);
}

/* The network's reason, then what is missing, and the command. */
static void no_network(struct fetch_view *v, const struct hub_name *n, const char *parts, const struct err *network,
                       struct err *why)
{
    struct err missing = {0};
    if (look_in_cache(v, n, parts, &missing)) {
        fprintf(stderr, "jobctl-fetch: %s; using commit %.12s from the cache\n", network->text, v->commit);
        return;
    }
    *why = missing;
    err_prefix(why, "%s; ", network->text);
    why->code = network->code;
    why->errnum = network->errnum;
    v->state = FETCH_ABSENT;
}

/* Without asking the hub: offline, or because a commit can mean nothing else there. */
static bool needs_hub(struct fetch_view *v, const struct hub_name *n, const char *parts, struct err *why)
{
    const bool offline = hub_cache_is_offline();
    struct err missing = {0};
    if (!offline && (!hub_name_is_commit(n->revision) || !parts[0]))
        return true;
    if (look_in_cache(v, n, parts, &missing) || !offline)
        return v->state != FETCH_THERE;
    *why = missing;
    err_prefix(why, "HF_HUB_OFFLINE is set; ");
    return false;
}

int fetch_look(struct fetch_view *out, struct fetch_list *list, struct fetch_http *h, const struct hub_name *n,
               const char *parts, struct err *why, struct err *err)
{
    char dir[PATH_MAX];
    struct err said = {0};
    *out = (struct fetch_view){.state = FETCH_ABSENT};
    *list = (struct fetch_list){.n = 0};
    if (hub_cache_dir(dir, err) < 0)
        return -1;
    if (needs_hub(out, n, parts, why)) {
        look_at_hub(out, list, h, n, parts, &said);
        if (is_network(&said))
            no_network(out, n, parts, &said, why);
        else
            *why = said;
    }
    if (why->code)
        snprintf(out->text, sizeof(out->text), "%s", why->text);
    return 0;
}

/* --- downloading ------------------------------------------------------------------------------- */

/* Before gigabytes are downloaded in vain. */
static int check_room(const struct fetch_view *v, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX], need[FETCH_SIZE], left[FETCH_SIZE];
    struct statvfs s;
    if (hub_cache_dir(dir, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s", dir);
    while (statvfs(path, &s) < 0 && strrchr(path, '/') > path)
        *strrchr(path, '/') = '\0';
    const int64_t room = statvfs(path, &s) == 0 ? (int64_t)s.f_bavail * (int64_t)s.f_frsize : INT64_MAX;
    if (v->missing_bytes <= room)
        return 0;
    err_set(err, ERR_SYSTEM, "%s has %s left, but %s must be downloaded: free some space, or set HF_HUB_CACHE to a "
            "directory on another disk", dir, fetch_progress_size(left, room),
            fetch_progress_size(need, v->missing_bytes));
    err->errnum = ENOSPC;
    return -1;
}

static int get_all(const struct fetch_view *v, const struct fetch_list *l, struct fetch_http *h,
                   const struct hub_name *n, struct fetch_progress *p, struct err *err)
{
    for (int i = 0; i < l->n; i++) {
        const struct fetch_blob b = blob_of(l, i, n);
        if (!l->file[i].wanted || fetch_blob_is_there(&b))
            continue;
        p->file++;
        if (fetch_blob_get(h, &b, p, err) < 0)
            return -1;
    }
    return fetch_blob_set_ref(n, v->commit, err);
}

/* In a cache that may only be read, files can be there without it. */
static void set_ref(const struct hub_name *n, const char *commit)
{
    struct err err = {0};
    if (!hub_cache_is_offline() && fetch_blob_set_ref(n, commit, &err) < 0)
        fprintf(stderr, "jobctl-fetch: %s\n", err.text);
}

static int64_t missing_whole(const struct fetch_list *l, const struct hub_name *n)
{
    int64_t bytes = 0;
    for (int i = 0; i < l->n; i++) {
        const struct fetch_blob b = blob_of(l, i, n);
        bytes += l->file[i].wanted && !fetch_blob_is_there(&b) ? b.bytes : 0;
    }
    return bytes;
}

int fetch_get(struct fetch_view *v, const struct fetch_list *list, struct fetch_http *h, const struct hub_name *n,
              const char *parts, struct progress *agent, struct err *err)
{
    struct fetch_progress p;
    if (v->state != FETCH_MISSING) {
        set_ref(n, v->commit);
        return 0;
    }
    fprintf(stderr, "%s\n", v->text);
    if (check_room(v, err) < 0)
        return -1;
    fetch_progress_begin(&p, agent, v->missing, missing_whole(list, n));
    const int rc = get_all(v, list, h, n, &p, err);
    fetch_progress_end(&p);
    if (rc < 0)
        return -1;
    v->state = FETCH_THERE;
    v->missing = 0;
    v->missing_bytes = 0;
    describe(v, h, n);
    settle_path(v, n, parts);
    return 0;
}

json_t *fetch_json(const struct fetch_view *v)
{
    return json_make("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:s}", "state", states[v->state], "commit", v->commit,
                     "pinned", v->pinned, "path", v->path, "files", v->files, "missing_files", v->missing, "bytes",
                     (json_int_t)v->bytes, "missing_bytes", (json_int_t)v->missing_bytes, "text", v->text);
}
