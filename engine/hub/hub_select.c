/* SPDX-License-Identifier: Apache-2.0 */
/* hub_select.c - see hub_select.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/hub/hub_select.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/text_append.h"
#include "engine/hub/weights_choice.h"

/* --- names ------------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder of a file: so many of its first bytes, 0 at the top. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool is_in(const char *path, const char *folder, size_t n)
{
    return folder_length(path) == n && strncmp(path, folder, n) == 0;
}

/* In the folder or below it. */
static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return n == 0 || (strncmp(path, folder, n) == 0 && path[n] == '/');
}

/* Of a folder such as .cache. */
static bool is_hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.");
}

static bool is_small(const char *name)
{
    static const char *const names[] = {"tokenizer.model", "spiece.model", "merges.txt", "vocab.txt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return text_ends_with(name, ".json") && name[0] != '.' && !text_ends_with(name, ".index.json");
}

/* --- one folder -------------------------------------------------------------------------------- */

static struct weights_choice choose(const struct hub_file *list, int n, const char *folder, size_t len)
{
    struct weights_choice c = {0};
    for (int i = 0; i < n; i++)
        if (is_in(list[i].path, folder, len))
            weights_choice_add(&c, base_of(list[i].path));
    return c;
}

/* Beside an index its shards; of several files of one form all, their copies apart. */
static bool is_chosen(const struct weights_choice *c, const char *name)
{
    int number, total;
    struct weights_choice other = *c;
    if (c->form == 0 || !weights_choice_is_weights(name))
        return false;
    if (strcmp(name, c->name) == 0 || weights_choice_is_shard(c->name, name, &number, &total))
        return true;
    if (text_ends_with(c->name, ".index.json"))
        return false;
    weights_choice_add(&other, name);
    return other.form == c->form && other.files > c->files;
}

static void want_folder(struct hub_file *list, int n, const char *folder, size_t len)
{
    const struct weights_choice c = choose(list, n, folder, len);
    for (int i = 0; i < n; i++) {
        const char *name = base_of(list[i].path);
        if (is_in(list[i].path, folder, len))
            list[i].wanted = !is_hidden(list[i].path) && (is_small(name) || is_chosen(&c, name));
    }
}

/* --- a file, a pipeline, a repository ---------------------------------------------------------- */

static void want_file(struct hub_file *list, int n, const char *file)
{
    int number, total;
    const size_t len = folder_length(file);
    for (int i = 0; i < n; i++)
        if (is_in(list[i].path, file, len))
            list[i].wanted = strcmp(list[i].path, file) == 0 || is_small(base_of(list[i].path)) ||
                             weights_choice_is_shard(base_of(file), base_of(list[i].path), &number, &total);
}

/* Is the folder behind `top` one of the comma-separated parts? */
static bool is_part(const char *folder, size_t len, const char *parts)
{
    if (!parts[0])
        return true;
    for (const char *p = parts;; p++) {
        const size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, folder, n) == 0)
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

static const struct hub_file *find(const struct hub_file *list, int n, const char *folder, const char *name)
{
    for (int i = 0; i < n; i++)
        if (is_in(list[i].path, folder, strlen(folder)) && strcmp(base_of(list[i].path), name) == 0)
            return &list[i];
    return NULL;
}

/* Each folder of the pipeline once, at its first file. */
static void want_parts(struct hub_file *list, int n, const char *top, const char *parts)
{
    const size_t skip = strlen(top) + (top[0] != '\0');
    for (int i = 0; i < n; i++) {
        const size_t len = folder_length(list[i].path);
        if (is_below(list[i].path, top) && len > skip && !memchr(list[i].path + skip, '/', len - skip) &&
            is_part(list[i].path + skip, len - skip, parts))
            want_folder(list, n, list[i].path, len);
    }
}

static void want_tree(struct hub_file *list, int n, const char *top, const char *parts)
{
    want_folder(list, n, top, strlen(top));
    if (find(list, n, top, "model_index.json")) {
        want_parts(list, n, top, parts);
        return;
    }
    if (choose(list, n, top, strlen(top)).form)
        return;
    for (int i = 0; i < n; i++)
        if (is_below(list[i].path, top))
            want_folder(list, n, list[i].path, folder_length(list[i].path));
}

static bool has_file(const struct hub_file *list, int n, const char *file)
{
    for (int i = 0; i < n && file[0]; i++)
        if (strcmp(list[i].path, file) == 0)
            return true;
    return false;
}

int hub_select(struct hub_file *list, int n, const char *file, const char *parts)
{
    int wanted = 0;
    for (int i = 0; i < n; i++)
        list[i].wanted = false;
    if (has_file(list, n, file))
        want_file(list, n, file);
    else
        want_tree(list, n, file, parts);
    for (int i = 0; i < n; i++)
        wanted += list[i].wanted;
    return wanted;
}

/* --- what is there ----------------------------------------------------------------------------- */

/* Of the shards of an index: how many are there, and should be; 0: not one. */
static int count_shards(const struct hub_file *list, int n, const char *index, int *total)
{
    int there = 0, number;
    *total = 0;
    for (int i = 0; i < n; i++)
        there += is_in(list[i].path, index, folder_length(index)) &&
                 weights_choice_is_shard(base_of(index), base_of(list[i].path), &number, total);
    return there;
}

static bool shards_whole(const struct hub_file *list, int n, const char *index, char *why, size_t room)
{
    int total, there;
    if (!text_ends_with(index, ".index.json"))
        return true;
    there = count_shards(list, n, index, &total);
    if (there == total && there > 0)
        return true;
    if (there == 0)
        snprintf(why, room, "the shards of %s", index);
    else
        snprintf(why, room, "%d of the %d shards of %s", total - there, total, index);
    return false;
}

bool hub_select_is_whole(const struct hub_file *list, int n, const char *file, const char *parts, char *why,
                         size_t room)
{
    const bool tokenizer = strcmp(parts, "tokenizer") == 0;
    bool weights = false;
    for (int i = 0; i < n; i++) {
        if (!list[i].wanted)
            continue;
        if (!shards_whole(list, n, list[i].path, why, room))
            return false;
        weights |= tokenizer || weights_choice_is_weights(base_of(list[i].path));
    }
    if (weights || has_file(list, n, file))
        return true;
    snprintf(why, room, "%s", file[0] ? file : "a file of weights");
    return false;
}

void hub_select_target(char *out, size_t room, const struct hub_file *list, int n, const char *file)
{
    const struct hub_file *only = NULL;
    snprintf(out, room, "%s", file);
    if (has_file(list, n, file) || find(list, n, file, "model_index.json"))
        return;
    for (int i = 0; i < n; i++) {
        if (!list[i].wanted || !weights_choice_is_weights(base_of(list[i].path)))
            continue;
        if (only && !is_in(list[i].path, only->path, folder_length(only->path)))
            return; /* several folders: whoever opens it says what it found */
        only = &list[i];
    }
    if (only)
        snprintf(out, room, "%.*s", (int)folder_length(only->path), only->path);
}
