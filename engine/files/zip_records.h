/* SPDX-License-Identifier: Apache-2.0 */
/* zip_records.h - the records of a zip archive in memory: name and place of each
 *
 * Read from the central directory, with the zip64 records where they are.  A local header gives only the place of the
 * bytes: its sizes may be 0.  Checked before use: every offset and size, that names of directory and local header
 * agree, that no name occurs twice and that no two records overlap. Encrypted records are refused, and compressed
 * ones unless they are requested.
 */
#ifndef ENGINE_FILES_ZIP_RECORDS_H
#define ENGINE_FILES_ZIP_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct zip_record {
    const char          *name; /* into the archive, without a terminating 0 */
    size_t               name_len;
    const unsigned char *bytes;
    size_t               size;
    size_t               full;     /* of the bytes once they are inflated */
    bool                 deflated;
    uint32_t             crc;  /* of the bytes; 0 where the writer computed none */
};

/* By name. */
struct zip_records {
    struct zip_record *record;
    size_t             len;
};

/* Valid as long as the bytes of the archive. ERR_DATA: not such an archive, or damaged. */
int zip_records_read(struct zip_records *out, const unsigned char *bytes, size_t size, struct err *err);
/* The same; records may be compressed by deflate. */
int zip_records_read_any(struct zip_records *out, const unsigned char *bytes, size_t size, struct err *err);
/* The record's `full` bytes, inflated and checked. */
int zip_records_copy(void *to, const struct zip_record *r, struct err *err);
/* Accepts a zeroed struct. */
void zip_records_free(struct zip_records *z);
const struct zip_record *zip_records_find(const struct zip_records *z, const char *name, size_t n); /* or NULL */
/* ERR_DATA: the bytes have another checksum than the directory says. */
int zip_records_check(const struct zip_record *r, struct err *err);

#endif
