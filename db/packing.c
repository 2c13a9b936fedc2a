/* SPDX-License-Identifier: Apache-2.0 */
/* packing.c - see packing.h; embeds the dictionary in the program */
#include "db/packing.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "engine/contract/err.h"

/* The assembler reads the file; the Makefile has the dependency. */
__asm__(".section .rodata\npacking_dict:\n.incbin \"db/packing.dict\"\npacking_dict_end:\n.previous\n");
extern const unsigned char packing_dict[], packing_dict_end[];

enum { TEXT_MAX = 1 << 28 };    /* a damaged blob must not take all memory */

static uInt dict_size(void)
{
    return (uInt)(packing_dict_end - packing_dict);
}

static int deflate_all(z_stream *z, unsigned char **out, uLong *size)
{
    if (deflateSetDictionary(z, packing_dict, dict_size()) != Z_OK)
        return -1;
    const uLong room = deflateBound(z, z->avail_in);
    *out = malloc(room);
    z->next_out = *out;
    z->avail_out = (uInt)room;
    const int rc = *out ? deflate(z, Z_FINISH) : Z_MEM_ERROR;
    *size = z->total_out;
    return rc == Z_STREAM_END ? 0 : -1;
}

static void pack(sqlite3_context *c, int n, sqlite3_value **v)
{
    (void)n;
    unsigned char *out = NULL;
    uLong size = 0;
    z_stream z = { .next_in = sqlite3_value_text(v[0]),
                   .avail_in = (uInt)sqlite3_value_bytes(v[0]) };
    if (deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK || deflate_all(&z, &out, &size) < 0) {
        free(out);
        sqlite3_result_error_nomem(c);
    } else {
        sqlite3_result_blob64(c, out, size, free);
    }
    deflateEnd(&z);
}

/* Room for more of the text, the dictionary when it is asked for. 1: go on; 0: the end; else zlib's error. */
static int inflate_some(z_stream *z, char **out, size_t *room)
{
    if (z->avail_out == 0) {
        char *more = *room < TEXT_MAX ? realloc(*out, *room * 4) : NULL;
        if (!more)
            return Z_MEM_ERROR;
        *out = more;
        z->next_out = (unsigned char *)more + z->total_out;
        z->avail_out = (uInt)(*room * 4 - z->total_out);
        *room *= 4;
    }
    int rc = inflate(z, Z_NO_FLUSH);
    if (rc == Z_NEED_DICT)
        rc = inflateSetDictionary(z, packing_dict, dict_size());
    return rc == Z_OK ? 1 : rc == Z_STREAM_END ? 0 : rc;
}

static void say_damaged(sqlite3_context *c, sqlite3_value **v, const char *why)
{
    char *text = sqlite3_mprintf("the %s of job %lld in the store are damaged (%s): run `jobctl doctor --repair`",
                                 sqlite3_value_text(v[1]), sqlite3_value_int64(v[2]), why);
    sqlite3_result_error(c, text ? text : "out of memory", -1);
    sqlite3_result_error_code(c, PACKING_DAMAGED);
    sqlite3_free(text);
}

static void unpack(sqlite3_context *c, int n, sqlite3_value **v)
{
    (void)n;
    z_stream z = { .next_in = sqlite3_value_blob(v[0]),
                   .avail_in = (uInt)sqlite3_value_bytes(v[0]) };
    size_t room = 1024;
    char *out = NULL;
    int rc = inflateInit(&z) == Z_OK ? 1 : Z_MEM_ERROR;
    while (rc == 1)
        rc = inflate_some(&z, &out, &room);
    if (rc == 0) {
        sqlite3_result_text64(c, out, z.total_out, free, SQLITE_UTF8);
    } else {
        say_damaged(c, v, z.msg ? z.msg : rc == Z_BUF_ERROR ? "cut off" : zError(rc));
        free(out);
    }
    inflateEnd(&z);
}

int packing_register(sqlite3 *db, struct err *err)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    if (sqlite3_create_function(db, "text_pack", 1, flags, NULL, pack, NULL, NULL) == SQLITE_OK &&
        sqlite3_create_function(db, "text_unpack", 3, flags, NULL, unpack, NULL, NULL) == SQLITE_OK)
        return 0;
    return err_set(err, ERR_MEMORY, "out of memory for the store");
}
