/* SPDX-License-Identifier: Apache-2.0 */
/* code_list.c - see code_list.h */
#include "controller/code/code_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code/code_manifest.h"
#include "agent/core/redact_shapes.h"
#include "engine/base/buf.h"
#include "controller/code/code_git.h"
#include "controller/code/ignore.h"
#include "controller/job/job_view.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/text_append.h"
#include "engine/base/utf8.h"

enum { FULL = PATH_MAX + 2 * CODE_PATH, IGNORE_BYTES = 1024 * 1024, SPARSE_BYTES = 1024 * 1024,
       SMALL_BYTES = 16 * 1024,
       SEEN_MAX = 8 * CODE_FILES_MAX, LARGEST = 3, DEPTH = 60 };

#define SECRET "may hold a secret"

struct walk {
    struct code_list *list;
    const char       *root;
    struct stat       home;     /* st_ino 0: there is none yet */
    int64_t           enough;   /* bytes after which it ends at once */
    struct ignore    *rules;
    json_t           *dirs;     /* directories that were looked at: true, or false for left out */
    size_t            seen;
    struct err       *err;
};

static int scan(struct walk *w, const char *rel);

/* ---- what is left out ---- */

static bool is_like(const char *const *patterns, const char *name)
{
    while (*patterns && fnmatch(*patterns, name, 0) != 0)
        patterns++;
    return *patterns;
}

/* Is it a name such as .env, id_rsa or server.key? Pure. */
static bool is_secret(const char *name)
{
    static const char *const examples[] = {".env.example", ".env.sample", ".env.template", ".env.dist", "example.env",
                                           NULL};
    static const char *const names[] = {
        ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa", "id_dsa",
        "id_ecdsa", "id_ed25519", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc", ".dockercfg",
        ".htpasswd", "token", "*.token", "credentials", "credentials.json", "*_credentials.json",
        "service[-_]account*.json", "kubeconfig", "*.kubeconfig", NULL};
    return !is_like(examples, name) && is_like(names, name);
}

/* A small file of data with a private key, or with nothing but a service's key. Programs are not looked into: without
 * one of them, the job could not run. */
static bool holds_key(const char *path, const char *name, const struct stat *st)
{
    static const char *const data[] = {"*.json", "*.yaml", "*.yml", "*.toml", "*.ini", "*.cfg", "*.conf", "*.txt", NULL};
    char text[SMALL_BYTES + 1];
    if (st->st_size > SMALL_BYTES || (strchr(name + 1, '.') && !is_like(data, name)))
        return false;
    const int fd = safe_open(path, O_RDONLY, NULL);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, SMALL_BYTES);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const struct redact_span key = redact_shape_at(text, text);
    return strstr(text, "PRIVATE KEY-----") ||
           (key.lead == 0 && key.len > 0 && text[key.len + strspn(text + key.len, " \r\n")] == '\0');
}

static void leave(struct walk *w, const char *rel, const char *why)
{
    struct code_list *l = w->list;
    char path[2 * CODE_PATH];
    snprintf(path, sizeof(path), "%s", rel);
    err_make_printable(path);
    if (l->left++ < CODE_LEFT_TOLD) /* secrets first: a note has room for a few */
        json_array_insert_new(l->left_out, strcmp(why, SECRET) == 0 ? 0 : json_array_size(l->left_out),
                              json_make("{s:s, s:s}", "path", path, "why", why));
}

static const char *last_part(const char *path)
{
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

static void full_path(char out[FULL], const struct walk *w, const char *rel)
{
    snprintf(out, FULL, "%s%s%s", w->root, rel[0] ? "/" : "", rel);
}

static bool is_there(const struct walk *w, const char *rel, const char *name)
{
    char path[FULL + 32];
    struct stat st;
    full_path(path, w, rel);
    strcat(path, "/");
    strcat(path, name);
    return lstat(path, &st) == 0;
}

static bool is_kept_by_tool(const char *name)
{
    static const char *const names[] = {".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", NULL};
    int i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return names[i] != NULL;
}

/* ---- rules ---- */

static int read_rules(struct walk *w, const char *rel, const char *name)
{
    char path[FULL + 32];
    struct err why = {.code = ERR_NONE};
    full_path(path, w, rel);
    strcat(path, "/");
    strcat(path, name);
    const int fd = safe_open_linked(path, O_RDONLY, &why);
    char *text = fd < 0 ? NULL : calloc(1, IGNORE_BYTES + 1);
    int rc = 0;
    if (fd < 0)
        return why.code == ERR_NOT_FOUND ? 0 : err_set(w->err, why.code, "%s", why.text);
    for (ssize_t n, at = 0; text && (n = read(fd, text + at, IGNORE_BYTES - (size_t)at)) > 0;)
        at += n;
    if (!text || ignore_add(w->rules, rel, text) < 0)
        rc = err_set(w->err, ERR_MEMORY, "out of memory for the rules of %s", path);
    free(text);
    close(fd);
    return rc;
}

static int depth_of(const char *rel)
{
    int depth = 0;
    for (const char *p = rel; (p = strchr(p, '/')); p++)
        depth++;
    return depth;
}

static bool is_home(const struct walk *w, const char *rel)
{
    char path[FULL];
    struct stat st;
    full_path(path, w, rel);
    return w->home.st_ino && lstat(path, &st) == 0 && st.st_ino == w->home.st_ino && st.st_dev == w->home.st_dev;
}

/* Is the directory part of the snapshot?  Its rules are read on the first look. */
static bool enter(struct walk *w, const char *rel)
{
    const json_t *known = json_object_get(w->dirs, rel);
    if (known)
        return json_is_true(known);
    bool in = true;
    if (rel[0] && (is_kept_by_tool(last_part(rel)) || ignore_has(w->rules, rel, true) || is_home(w, rel)))
        in = false;
    else if (rel[0] && is_there(w, rel, "pyvenv.cfg")) {
        leave(w, rel, "a virtual environment");
        in = false;
    } else if (depth_of(rel) > DEPTH) {
        leave(w, rel, "is too deep");
        in = false;
    } else {
        in = read_rules(w, rel, ".jobctlignore") == 0;
    }
    json_object_set_new(w->dirs, rel, json_boolean(in));
    return in;
}

/* All directories of the path. */
static bool enter_parents(struct walk *w, const char *path)
{
    char part[FULL];
    if (!enter(w, ""))
        return false;
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
        if (!enter(w, part))
            return false;
    }
    return true;
}

/* ---- one file ---- */

static int append(struct walk *w, const char *rel)
{
    struct code_list *l = w->list;
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 256;
        char **more = realloc(l->paths, room * sizeof(*more));
        if (!more)
            return err_set(w->err, ERR_MEMORY, "out of memory for a list of files");
        l->paths = more;
        l->room = room;
    }
    if (!(l->paths[l->count] = strdup(rel)))
        return err_set(w->err, ERR_MEMORY, "out of memory for a list of files");
    l->count++;
    return 0;
}

static bool is_sparse(const char *path, const struct stat *st)
{
    if (st->st_size < SPARSE_BYTES || (int64_t)st->st_blocks * 512 >= st->st_size / 2)
        return false;
    const int fd = safe_open(path, O_RDONLY, NULL);
    const off_t hole = fd < 0 ? -1 : lseek(fd, 0, SEEK_HOLE);
    if (fd >= 0)
        close(fd);
    return hole >= 0 && hole < st->st_size;
}

static bool is_utf8(const char *text)
{
    return utf8_valid(text, strlen(text));
}

static const char *link_trouble(const char *path, const char *rel)
{
    char target[PATH_MAX];
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return !is_utf8(target) || !code_link_inside(rel, target) ? "a link that leads outside" : NULL;
}

/* Why it cannot be in a snapshot, in words; NULL: it can. */
static const char *trouble(const struct walk *w, const char *path, const char *rel, const struct stat *st)
{
    const char *name = last_part(rel);
    if (!is_utf8(rel))
        return "its name is not UTF-8";
    if (!code_path_ok(rel))
        return "its path is too long";
    if (S_ISLNK(st->st_mode))
        return link_trouble(path, rel);
    if (!S_ISREG(st->st_mode))
        return S_ISFIFO(st->st_mode) ? "a FIFO" : S_ISSOCK(st->st_mode) ? "a socket" : "a device";
    if ((is_secret(name) || holds_key(path, name, st)) && !ignore_keeps(w->rules, rel))
        return SECRET;
    if (is_sparse(path, st))
        return "a sparse file";
    return access(path, R_OK) < 0 ? "cannot be read" : NULL;
}

/* The limits are passed, which check_limits() tells. */
static bool is_enough(const struct walk *w)
{
    return w->list->bytes > w->enough || (w->enough < INT64_MAX && w->list->count > CODE_FILES_MAX);
}

static int take(struct walk *w, const char *rel)
{
    char path[FULL];
    struct stat st;
    full_path(path, w, rel);
    if (++w->seen > SEEN_MAX)
        return err_set(w->err, ERR_USAGE, "%s has more than %d files", w->root, SEEN_MAX);
    if (lstat(path, &st) < 0)
        return 0;               /* git has it, the directory has not; or it was removed meanwhile */
    if (S_ISDIR(st.st_mode))
        return enter(w, rel) ? scan(w, rel) : w->err->code ? -1 : 0;
    if (ignore_has(w->rules, rel, false))
        return 0;
    const char *why = trouble(w, path, rel, &st);
    if (why) {
        leave(w, rel, why);
        return 0;
    }
    w->list->bytes += S_ISLNK(st.st_mode) ? 0 : st.st_size;
    return append(w, rel) < 0 ? -1 : is_enough(w) ? -1 : 0;
}

/* ---- git ---- */

/* 1: git has listed the directory; 0: it cannot, or has nothing there. */
static int list_by_git(struct walk *w, const char *rel)
{
    char dir[FULL], path[FULL];
    struct buf out = {.data = NULL};
    struct code_git g = {.dir = dir, .out = &out,
                         .args = {"ls-files", "-z", "--cached", "--others", "--exclude-standard", NULL}};
    full_path(dir, w, rel);
    int rc = code_git_run(&g, NULL) == 0 && out.size > 0;
    for (size_t at = 0; rc == 1 && at < out.size; at += strlen(out.data + at) + 1) {
        snprintf(path, sizeof(path), "%s%s%s", rel, rel[0] ? "/" : "", out.data + at);
        const size_t n = strlen(path);
        if (n > 0 && path[n - 1] == '/')
            path[n - 1] = '\0';     /* a repository below this one */
        if (enter_parents(w, path) ? take(w, path) < 0 : w->err->code != ERR_NONE)
            rc = -1;
    }
    buf_fini(&out);
    return rc;
}

/* ---- without git ---- */

static int list_by_hand(struct walk *w, const char *rel)
{
    char path[FULL];
    full_path(path, w, rel);
    DIR *d = opendir(path);
    int rc = 0;
    if (!d && !rel[0])
        return err_set_errno(w->err, errno, "cannot read the directory %s", path);
    if (!d)
        leave(w, rel, "cannot be read");
    for (struct dirent *e; d && rc == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s%s%s", rel, rel[0] ? "/" : "", e->d_name);
        rc = take(w, path);
    }
    if (d)
        closedir(d);
    return rc;
}

/* The directory itself may be one of a repository; those below have their own, or were listed with it. */
static int scan(struct walk *w, const char *rel)
{
    const int rc = !rel[0] || is_there(w, rel, ".git") ? list_by_git(w, rel) : 0;
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    return read_rules(w, rel, ".gitignore") < 0 ? -1 : list_by_hand(w, rel);
}

/* ---- the list ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct code_list *l)
{
    size_t n = 0;
    if (l->count > 1)
        qsort(l->paths, l->count, sizeof(*l->paths), by_bytes);
    for (size_t i = 0; i < l->count; i++) {
        if (n > 0 && strcmp(l->paths[n - 1], l->paths[i]) == 0)
            free(l->paths[i]);      /* both sides of a conflict */
        else
            l->paths[n++] = l->paths[i];
    }
    l->count = n;
}

/* {ENTRY: bytes or files} of the directory itself. */
static json_t *sum_entries(const struct walk *w, bool files)
{
    json_t *sums = json_object();
    for (size_t i = 0; i < w->list->count; i++) {
        const char *rel = w->list->paths[i];
        const size_t n = strcspn(rel, "/");
        char path[FULL], entry[300];
        struct stat st;
        full_path(path, w, rel);
        snprintf(entry, sizeof(entry), "%.*s%s", (int)(n < 256 ? n : 256), rel, rel[n] ? "/" : "");
        const int64_t more = files ? 1 : lstat(path, &st) == 0 ? st.st_size : 0;
        json_object_set_new(sums, entry, json_integer(json_integer_value(json_object_get(sums, entry)) + more));
    }
    return sums;
}

/* "data/ 1.2 GB, model.pt 300 MB" */
static void name_largest(char *text, size_t size, const struct walk *w, bool files)
{
    json_t *sums = sum_entries(w, files);
    text[0] = '\0';
    for (int i = 0; i < LARGEST && json_object_size(sums) > 0; i++) {
        const char *name, *most = NULL;
        json_t *value;
        char amount[32];
        json_object_foreach (sums, name, value)
            if (!most || json_integer_value(value) > json_integer_value(json_object_get(sums, most)))
                most = name;
        const int64_t sum = json_integer_value(json_object_get(sums, most));
        job_view_bytes(amount, sizeof(amount), sum);
        if (files)
            snprintf(amount, sizeof(amount), "%lld", (long long)sum);
        text_append(text, size, "%s%.60s %s", i ? ", " : "", most, amount);
        json_object_del(sums, most);
    }
    json_decref(sums);
}

static int check_limits(const struct walk *w, int64_t max_bytes, struct err *err)
{
    const bool files = w->list->count > CODE_FILES_MAX;
    char have[32], most[32], largest[300];
    if (!files && w->list->bytes <= max_bytes)
        return 0;
    job_view_bytes(have, sizeof(have), w->list->bytes);
    job_view_bytes(most, sizeof(most), max_bytes);
    if (files) {
        snprintf(have, sizeof(have), "%zu files", w->list->count);
        snprintf(most, sizeof(most), "%d", CODE_FILES_MAX);
    }
    name_largest(largest, sizeof(largest), w, files);
    return err_set(err, ERR_USAGE, "the code in %.160s is %s, more than %s; the largest are %s; list what is not code in "
                   ".jobctlignore there, as in a .gitignore, or set snapshot: false", w->root, have, most, largest);
}

static int list(struct walk *w, const struct code_list_wish *wish)
{
    struct stat st;
    if (!w->rules || !w->dirs)
        return err_set(w->err, ERR_MEMORY, "out of memory for a list of files");
    if (stat(wish->dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(w->err, ERR_NOT_FOUND, "there is no directory %s", wish->dir);
    if (stat(wish->home, &w->home) < 0)
        w->home.st_ino = 0;
    const int rc = enter(w, "") ? scan(w, "") : -1;
    sort(w->list);
    return w->err->code ? rc : check_limits(w, wish->max_bytes, w->err);
}

int code_list_make(struct code_list *l, const struct code_list_wish *wish, struct err *err)
{
    struct err why = {.code = ERR_NONE};
    struct walk w = {.list = l, .root = wish->dir, .rules = ignore_create(), .dirs = json_object(), .err = &why,
                     .enough = wish->hurry ? wish->max_bytes : INT64_MAX};
    *l = (struct code_list){.left_out = json_array()};
    const int rc = list(&w, wish);
    ignore_destroy(w.rules);
    json_decref(w.dirs);
    if (rc == 0)
        return 0;
    code_list_fini(l);
    return err_set(err, why.code, "%s", why.text);
}

void code_list_fini(struct code_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->paths[i]);
    free(l->paths);
    json_decref(l->left_out);
    *l = (struct code_list){.paths = NULL};
}
