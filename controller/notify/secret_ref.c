/* SPDX-License-Identifier: Apache-2.0 */
/* secret_ref.c - see secret_ref.h */
#include "controller/notify/secret_ref.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { NAME_MAX_LEN = 128 };

static int file_path(char out[PATH_MAX], struct err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = 0;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/jobctl/secrets", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/.config/jobctl/secrets", home);
    return n > 0 && n < PATH_MAX ? 0 : err_set(err, ERR_USAGE, "HOME is not set");
}

static int check_private(FILE *f, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fileno(f), &st) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read %s: %m", path);
    if (st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        return 0;
    return err_set(err, ERR_USAGE, "%s can be read or written by others: run `chmod 600 %s`", path, path);
}

/* The value after NAME= on a line, for free(); NULL: not there. */
static char *find_line(FILE *f, const char *name)
{
    char *line = NULL, *value = NULL;
    size_t size = 0;
    const size_t n = strlen(name);
    while (!value && getline(&line, &size, f) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, name, n) == 0 && line[n] == '=' && line[n + 1])
            value = strdup(line + n + 1);
    }
    free(line);
    return value;
}

static char *from_file(const char *name, struct err *err)
{
    char path[PATH_MAX], *value = NULL;
    if (file_path(path, err) < 0)
        return NULL;
    const int fd = safe_open_linked(path, O_RDONLY, NULL);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (f && check_private(f, path, err) == 0)
        value = find_line(f, name);
    if (f)
        fclose(f);
    if (!value)
        err_set(err, ERR_USAGE, "the secret %s is not set: write %s=... into %s (mode 600)", name, name, path);
    return value;
}

static char *value_of(const char *name, struct err *err)
{
    const char *set = getenv(name);
    return set && set[0] ? strdup(set) : from_file(name, err);
}

/* Appends the secret at "${NAME}"; returns what follows it, or NULL. */
static const char *append_secret(struct buf *out, const char *at, struct err *err)
{
    char name[NAME_MAX_LEN];
    const size_t n = strcspn(at + 2, "}");
    if (!at[2 + n] || n == 0 || n >= sizeof(name)) {
        err_set(err, ERR_USAGE, "a reference to a secret is not closed: expected ${NAME}");
        return NULL;
    }
    snprintf(name, sizeof(name), "%.*s", (int)n, at + 2);
    char *value = value_of(name, err);
    const int rc = value ? buf_append(out, value, strlen(value)) : -1;
    free(value);
    return rc == 0 ? at + n + 3 : NULL;
}

char *secret_ref_expand(const char *text, struct err *err)
{
    struct buf out;
    buf_init(&out);
    while (text && *text) {
        const char *at = strstr(text, "${");
        const size_t plain = at ? (size_t)(at - text) : strlen(text);
        if (buf_append(&out, text, plain) < 0)
            text = NULL;
        else
            text = at ? append_secret(&out, at, err) : text + plain;
    }
    if (text && buf_append(&out, "", 1) == 0)
        return buf_take(&out);
    err_set(err, ERR_MEMORY, "out of memory for a secret");
    buf_fini(&out);
    return NULL;
}
