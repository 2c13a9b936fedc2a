/* SPDX-License-Identifier: Apache-2.0 */
/* code_record.c - see code_record.h */
#include "controller/code/code_record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "controller/code/code_git.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/base/safe_open.h"

/* "# branch.oid 1234...", "# branch.head main", then a line for each changed file. */
static void read_status(json_t *info, const char *text)
{
    json_int_t changed = 0;
    for (const char *line = text; *line; line += *line == '\n') {
        const int n = (int)strcspn(line, "\n");
        if (n > 13 && strncmp(line, "# branch.oid ", 13) == 0)
            json_object_set_new(info, "commit", json_text_f("%.*s", n - 13, line + 13));
        else if (n > 14 && strncmp(line, "# branch.head ", 14) == 0)
            json_object_set_new(info, "branch", json_text_f("%.*s", n - 14, line + 14));
        else if (n > 0 && line[0] != '#')
            changed++;
        line += n;
    }
    json_object_set_new(info, "changed", json_integer(changed));
}

static void set_trouble(json_t *info, const char *text)
{
    json_object_set_new(info, "git", json_text(text));
}

bool code_record_look(json_t *info, const char *workdir)
{
    struct buf out = {.data = NULL};
    struct err why = {.code = ERR_NONE};
    struct code_git g = {.dir = workdir, .out = &out,
                         .args = {"status", "--porcelain=v2", "--branch", "--untracked-files=no", NULL}};
    if (access(workdir, X_OK) < 0)
        return false;
    const int code = code_git_run(&g, &why);
    const bool none = code > 0 && strncmp(g.said, "not a git repository", 20) == 0;
    const bool missing = code == -1 && why.errnum == 2;
    if (code == 0)
        read_status(info, out.data ? out.data : "");
    else if (!none && !missing)
        set_trouble(info, code < 0 ? why.text : g.said);
    buf_fini(&out);
    if (strcmp(field_text(info, "commit"), "(initial)") == 0) {
        json_object_del(info, "commit");
        set_trouble(info, "the repository has no commit yet");
    }
    return !none && !missing;
}

static void write_commit(json_t *info, const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/" CODE_COMMIT, dir);
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, NULL);
    if (fd < 0 || dprintf(fd, "%s\n", field_text(info, "commit")) < 0)
        set_trouble(info, "the commit could not be written");
    if (fd >= 0)
        close(fd);
}

static void write_diff(json_t *info, const char *workdir, const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    struct err why = {.code = ERR_NONE};
    snprintf(path, sizeof(path), "%.4000s/" CODE_DIFF, dir);
    struct code_git g = {.dir = workdir, .max_bytes = CODE_DIFF_BYTES,
                         .fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, &why),
                         .args = {"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short",
                                  "--no-renames", "HEAD", "--", NULL}};
    const int code = g.fd < 0 ? -1 : code_git_run(&g, &why);
    if (code != 0)
        set_trouble(info, code < 0 ? why.text : g.said);
    else if (fstat(g.fd, &st) == 0)
        json_object_set_new(info, "diff_bytes", json_integer(st.st_size));
    if (g.cut)
        json_object_set_new(info, "diff_cut", json_true());
    if (g.fd >= 0)
        close(g.fd);
}

void code_record_write(json_t *info, const char *workdir, const char *dir)
{
    write_commit(info, dir);
    if (field_int(info, "changed", 0) > 0)
        write_diff(info, workdir, dir);
}
