/* SPDX-License-Identifier: Apache-2.0 */
/* weights_names.h - names of published weights, the authors' and diffusers', recognized and mapped
 *
 * The engine's tensors have the authors' names. diffusers uses other names, and splits the authors' joint matrices by
 * rows: attn.qkv into to_q, to_k, to_v, and kv_linear into to_k, to_v. No rows are permuted. diffusers writes two
 * copies of Lumina-Next's wq and q_norm, which may differ after training: only equal copies are accepted.
 */
#ifndef ENGINE_WEIGHTS_WEIGHTS_NAMES_H
#define ENGINE_WEIGHTS_WEIGHTS_NAMES_H

#include <stdbool.h>

enum weights_naming {
    WEIGHTS_SANA,             /* the authors' names */
    WEIGHTS_SANA_DIFFUSERS,
    WEIGHTS_LUMINA,
    WEIGHTS_LUMINA_DIFFUSERS,
    WEIGHTS_NAMINGS           /* none of these */
};

enum { WEIGHTS_NAME = 192 };

/* Where a tensor belongs. */
struct weights_place {
    char name[WEIGHTS_NAME]; /* the authors', or of weights_names_split() */
    int  part, parts;        /* rows part * R .. part * R + R - 1 of parts * R; 0 of 1: all of it */
};

struct weights_source;

/* The naming that fits most names of the source. */
enum weights_naming weights_names_tell(const struct weights_source *w);
/* "Sana's authors", "diffusers (Sana)" */
const char *weights_names_text(enum weights_naming naming);

/* false: the model has no tensor for this name. */
bool weights_names_map(struct weights_place *out, enum weights_naming naming, const char *name);
/* The reverse: the names under which the authors' tensor is saved with `naming`, and the rows that each has; returns
 * their number, 0 if it has none (computed, drawn or never used). Lumina-Next's queries have two whole copies. */
enum { WEIGHTS_NAMES_MOST = 4 };
int weights_names_split(struct weights_place out[WEIGHTS_NAMES_MOST], enum weights_naming naming, const char *authors);
/* May this tensor be missing, or left out, because it is computed, drawn or never used? (The authors' names.) */
bool weights_names_optional(const char *name);

#endif
