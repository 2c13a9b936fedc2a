/* SPDX-License-Identifier: Apache-2.0 */
/* pth.h - the tensors of a file that torch.save() wrote (.pth, .pt, .bin, .ckpt), mapped, never executed
 *
 * Both forms: the zip archive of PyTorch 1.6 and later, and the sequence of pickles of earlier versions. A tensor's
 * name is its path in the saved object, "/state_dict/x_embedder.proj.weight"; items of lists are numbers. Everything is
 * checked when the file is opened: checksums if the file has them, every tensor against its storage, and the object's
 * depth and size. Numbers are read from the mapping on access. Optimizer state and random-number state are read like
 * everything else; numpy arrays are skipped.
 *
 * A view of few stored numbers that are repeated (steps of 0) may have 64 times as many as its storage, or 4096.
 */
#ifndef ENGINE_WEIGHTS_PTH_H
#define ENGINE_WEIGHTS_PTH_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct pickle_value;
struct pth;
struct tensor_view;

/* ERR_SYSTEM: cannot be read; ERR_DATA: not such a file, damaged, or containing more than data. */
int pth_open(struct pth **out, const char *path, struct err *err);
/* The same for bytes in memory that outlive it (fuzzer, tests). */
int pth_parse(struct pth **out, const unsigned char *bytes, size_t size, struct err *err);
void pth_close(struct pth *f); /* accepts NULL */
/* Is a file with these first bytes written by torch.save(), or does it claim to be? */
bool pth_is(const unsigned char *bytes, size_t size);

/* In the order of the saved object. */
int pth_len(const struct pth *f);
const struct tensor_view *pth_at(const struct pth *f, int i);

/* Each text, number and null of the object with its path, without tensors and numpy arrays. */
typedef void pth_value_fn(void *ctx, const char *path, const struct pickle_value *value);
void pth_each_value(const struct pth *f, pth_value_fn *fn, void *ctx);

#endif
