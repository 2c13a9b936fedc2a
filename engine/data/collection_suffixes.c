/* SPDX-License-Identifier: Apache-2.0 */
/* collection_suffixes.c - a suffix of caption or score files that no file has is a mistake: which there are instead
 *
 * A picture or shard without such a file is none: captions are there of some.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/text_append.h"
#include "engine/data/collection_internal.h"

#define JSON ".json"
enum { TOLD = 6 };

/* --- is there one? ---------------------------------------------------------------------------- */

static bool has_file(const struct collection *c, int64_t i, const char *suffix)
{
    struct collection_sample s = {0};
    const bool shards = c->layout == COLLECTION_SHARDS;
    char *path = NULL;
    if (shards || collection_sample(&s, c, i, NULL) == 0)
        path = c->kind->side(c, i, &s, suffix, NULL);
    const bool found = path && access(path, F_OK) == 0;
    collection_sample_free(&s);
    free(path);
    return found;
}

/* In the order of samples: of those that have any, one of the first has one. Without a suffix the files are the
 * pictures' own descriptions, which need not be there. */
static bool has_any(const struct collection *c, const char *suffix)
{
    if (!suffix[0])
        return true;
    for (int i = 0; i < c->nshards; i++)
        if (c->shards[i].len > 0 && has_file(c, c->shards[i].first, suffix))
            return true;
    for (int64_t i = 0; c->layout != COLLECTION_SHARDS && i < c->len; i++)
        if (has_file(c, i, suffix))
            return true;
    return false;
}

/* --- which are there? ------------------------------------------------------------------------- */

struct names {
    struct dirent **at;
    int             n;
    char            told[240];
    int             count;
};

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_json(const char *name)
{
    const size_t n = strlen(name), end = strlen(JSON);
    return n > end && strcmp(name + n - end, JSON) == 0;
}

/* Is there a picture or shard "STEM.*", for the first `n` bytes of `name`? */
static bool has_stem(const struct names *all, const char *name, size_t n)
{
    int lo = 0, hi = all->n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        strncmp(all->at[mid]->d_name, name, n) < 0 ? (lo = mid + 1) : (hi = mid);
    }
    for (; lo < all->n && strncmp(all->at[lo]->d_name, name, n) == 0; lo++)
        if (all->at[lo]->d_name[n] == '.' && !is_json(all->at[lo]->d_name))
            return true;
    return false;
}

static void tell(struct names *all, const char *suffix, int n)
{
    char known[COLLECTION_SUFFIX + 8];
    snprintf(known, sizeof(known), " %.*s,", n, suffix);
    if (n < COLLECTION_SUFFIX && !strstr(all->told, known) && all->count++ < TOLD)
        text_append(all->told, sizeof(all->told), "%s", known);
}

/* The longest name of a picture or shard that the file's begins with; the rest is its suffix. */
static void take_name(struct names *all, const char *name)
{
    const size_t n = strlen(name) - strlen(JSON);
    for (size_t stem = n; stem > 0; stem--)
        if (has_stem(all, name, stem)) {
            if (stem < n)
                tell(all, name + stem, (int)(n - stem));
            return;
        }
}

/* " _a, _b", or "". */
static void list_suffixes(struct names *all, const char *dir)
{
    *all = (struct names){0};
    all->n = scandir(dir, &all->at, NULL, by_bytes);
    for (int i = 0; i < all->n; i++)
        if (is_json(all->at[i]->d_name))
            take_name(all, all->at[i]->d_name);
    for (int i = 0; i < all->n; i++)
        free(all->at[i]);
    free(all->at);
    if (all->told[0])
        all->told[strlen(all->told) - 1] = '\0';
}

/* --- the check -------------------------------------------------------------------------------- */

static int refuse(const struct collection *c, const char *key, const char *suffix, struct err *err)
{
    struct names all;
    const bool shards = c->layout == COLLECTION_SHARDS;
    char *dir = strdup(c->nshards > 0 ? c->shards[0].path : c->path);
    if (!dir)
        return err_set(err, ERR_MEMORY, "out of memory for a path");
    if (c->nshards > 0 && strrchr(dir, '/'))
        *strrchr(dir, '/') = '\0';
    list_suffixes(&all, dir);
    err_set(err, ERR_USAGE, "train.data.%s: there is no file %s%s.json beside the %s in %s; %s%s", key,
            shards ? "SHARD" : "NAME", suffix, shards ? "shards" : "pictures", dir,
            all.told[0] ? "suffixes that are there:" : "there are none with any suffix", all.told);
    free(dir);
    return -1;
}

int collection_suffixes_check(const struct collection *c, struct err *err)
{
    const struct collection_options *o = &c->o;
    for (int k = 0; k < o->caption_suffixes; k++)
        if (!has_any(c, o->caption_suffix[k]))
            return refuse(c, "caption_suffixes", o->caption_suffix[k], err);
    for (int k = 0; k < o->score_suffixes; k++)
        if (!has_any(c, o->score_suffix[k]))
            return refuse(c, "score_suffixes", o->score_suffix[k], err);
    return 0;
}
