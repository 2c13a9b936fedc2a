/* SPDX-License-Identifier: Apache-2.0 */
/* pth_save.h - a file as torch.save() writes it: {"state_dict": {name: tensor}}, of fp32 tensors
 *
 * A zip archive of stored records: data.pkl (pickle, protocol 2), byteorder, data/0, data/1, ... and version.  Sizes
 * and places are of 64 bits (zip64) throughout.
 */
#ifndef ENGINE_WEIGHTS_PTH_SAVE_H
#define ENGINE_WEIGHTS_PTH_SAVE_H

#include <stddef.h>
#include <stdint.h>

struct err;

struct pth_save_row {
    const char    *name;
    int            ndim;
    const int64_t *dim;
    const float   *data;
    size_t         count;
};

/* ERR_SYSTEM: it cannot be written; the caller syncs. */
int pth_save(int fd, const struct pth_save_row *rows, int n, struct err *err);

#endif
