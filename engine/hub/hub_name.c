/* SPDX-License-Identifier: Apache-2.0 */
/* hub_name.c - see hub_name.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/hub/hub_name.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/text_append.h"

#define SCHEME "hf://"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

bool hub_name_is(const char *text)
{
    return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

bool hub_name_is_commit(const char *revision)
{
    return strlen(revision) == 40 && strspn(revision, "0123456789abcdef") == 40;
}

static int refuse(const char *text, const char *why, struct err *err)
{
    return err_set(err, ERR_USAGE, "\"%.200s\" is not the name of a model on a hub: %s; expected hf://OWNER/REPO, "
                   "hf://OWNER/REPO@REVISION or hf://OWNER/REPO/FILE", text, why);
}

/* A part of a path that leads nowhere else: not "", "." or "..", without control characters and backslashes. */
static bool is_part(const char *part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)part[i] < ' ' || part[i] == 127 || part[i] == '\\')
            return false;
    return n > 0 && !(n == 1 && part[0] == '.') && !(n == 2 && part[0] == '.' && part[1] == '.');
}

bool hub_name_is_path(const char *path)
{
    for (size_t n;; path += n + 1) {
        n = strcspn(path, "/");
        if (!is_part(path, n))
            return false;
        if (!path[n])
            return true;
    }
}

static bool take(char *out, size_t room, const char *text, size_t n)
{
    if (n == 0 || n >= room)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* How much of the text behind '@' is the revision. */
static size_t revision_length(const char *text)
{
    const int slashes = strncmp(text, "refs/pr/", 8) == 0 || strncmp(text, "refs/convert/", 13) == 0 ? 2 : 0;
    size_t n = strcspn(text, "/");
    for (int i = 0; i < slashes && text[n]; i++)
        n += 1 + strcspn(text + n + 1, "/");
    return n;
}

/* %2F is a slash. */
static bool take_revision(struct hub_name *out, const char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at < sizeof(out->revision) - 1; i++) {
        const bool slash = n - i >= 3 && (strncmp(text + i, "%2F", 3) == 0 || strncmp(text + i, "%2f", 3) == 0);
        out->revision[at++] = slash ? '/' : text[i];
        i += slash ? 2 : 0;
    }
    out->revision[at] = '\0';
    return at > 0 && at < sizeof(out->revision) - 1 && hub_name_is_path(out->revision) && !strpbrk(out->revision, "@%?#: ");
}

int hub_name_parse(struct hub_name *out, const char *text, struct err *err)
{
    *out = (struct hub_name){.revision = "main"};
    if (!hub_name_is(text))
        return refuse(text, "it does not begin with hf://", err);
    const char *at = text + strlen(SCHEME);
    size_t n = strspn(at, letters);
    if (!is_part(at, n) || at[n] != '/' || !take(out->owner, sizeof(out->owner), at, n))
        return refuse(text, "it has no owner", err);
    at += n + 1;
    n = strspn(at, letters);
    if (!is_part(at, n) || !take(out->repo, sizeof(out->repo), at, n))
        return refuse(text, "it has no repository", err);
    at += n;
    if (*at == '@') {
        n = revision_length(++at);
        if (!take_revision(out, at, n))
            return refuse(text, "its revision is not a branch, tag or commit", err);
        at += n;
    }
    if (*at && *at != '/')
        return refuse(text, "the repository has a character that is not allowed in names", err);
    n = strlen(at);
    while (n > 1 && at[n - 1] == '/')
        n--;
    if (n > 1 && (!take(out->file, sizeof(out->file), at + 1, n - 1) || !hub_name_is_path(out->file)))
        return refuse(text, "its file is not a path inside the repository", err);
    return 0;
}

void hub_name_text(char text[HUB_NAME_TEXT], const struct hub_name *n, const char *revision)
{
    const char *r = revision ? revision : n->revision;
    snprintf(text, HUB_NAME_TEXT, SCHEME "%s/%s", n->owner, n->repo);
    if (strcmp(r, "main") == 0)
        r = "";
    for (const char *before = "@"; *r; before = "%2F") {
        const int part = (int)strcspn(r, "/");
        text_append(text, HUB_NAME_TEXT, "%s%.*s", before, part, r);
        r += part + (r[part] == '/');
    }
    if (n->file[0])
        text_append(text, HUB_NAME_TEXT, "/%s", n->file);
}
