/* SPDX-License-Identifier: Apache-2.0 */
/* pth_zip.c - the form of PyTorch 1.6 and later: a zip archive of a pickle and its storages; see pth.h
 *
 * ROOT/data.pkl, ROOT/data/KEY, ROOT/version, and in newer files ROOT/byteorder.  ROOT is the file's name when it was
 * saved, or "archive".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/weights/pth_internal.h"

enum { VERSION_MAX = 10 };

static const char pickle_record[] = "/data.pkl";

/* The one record ROOT/data.pkl. */
static const struct zip_record *find_pickle(struct pth *f, struct err *err)
{
    const struct zip_record *found = NULL;
    const size_t tail = sizeof(pickle_record) - 1;
    for (size_t i = 0; i < f->records.len; i++) {
        const struct zip_record *r = &f->records.record[i];
        if (r->name_len <= tail || memcmp(r->name + r->name_len - tail, pickle_record, tail) != 0)
            continue;
        if (found)
            return err_set(err, ERR_DATA, "a zip archive with two records data.pkl"), NULL;
        found = r;
    }
    if (!found || found->name_len - tail >= sizeof(f->root))
        return err_set(err, ERR_DATA, "a zip archive without data.pkl: torch.save() did not write it"), NULL;
    memcpy(f->root, found->name, found->name_len - tail);
    return found;
}

/* The text of a small record; "" if there is none. */
static void read_small(const struct pth *f, const char *name, char text[16])
{
    char path[TENSOR_VIEW_NAME + 32];
    const int n = snprintf(path, sizeof(path), "%s/%s", f->root, name);
    const struct zip_record *r = zip_records_find(&f->records, path, (size_t)n);
    snprintf(text, 16, "%.*s", r ? (int)(r->size < 15 ? r->size : 15) : 0, r ? (const char *)r->bytes : "");
}

static int check_version(const struct pth *f, struct err *err)
{
    char text[16], *end;
    read_small(f, "version", text);
    if (!text[0])
        read_small(f, ".data/version", text);
    const long version = strtol(text, &end, 10);
    if (version >= 1 && version <= VERSION_MAX && strcmp(end, "\n") == 0)
        return 0;
    return err_set(err, ERR_DATA, "its record \"version\" says \"%.*s\"; versions 1 to %d are known",
                   (int)strcspn(text, "\n"), text, VERSION_MAX);
}

static int read_byte_order(struct pth *f, struct err *err)
{
    char text[16];
    read_small(f, "byteorder", text);
    if (text[0] && strcmp(text, "little") != 0 && strcmp(text, "big") != 0)
        return err_set(err, ERR_DATA, "its record \"byteorder\" says \"%s\", neither little nor big", text);
    f->swapped = text[0] == 'b';
    return 0;
}

static int check_sums(const struct pth *f, struct err *err)
{
    for (size_t i = 0; i < f->records.len; i++)
        if (zip_records_check(&f->records.record[i], err) < 0)
            return -1;
    return 0;
}

int pth_read_zip(struct pth *f, const unsigned char *bytes, size_t size, struct err *err)
{
    const struct zip_record *pickle;
    size_t used;
    if (zip_records_read(&f->records, bytes, size, err) < 0 || !(pickle = find_pickle(f, err)) ||
        check_version(f, err) < 0 || read_byte_order(f, err) < 0 ||
        pickle_parse(&f->object, &used, pickle->bytes, pickle->size, pth_names, err) < 0)
        return -1;
    if (used != pickle->size)
        return err_set(err, ERR_DATA, "%zu bytes follow the end of its pickle", pickle->size - used);
    return pth_check_values(f, err) < 0 ? -1 : check_sums(f, err);
}
