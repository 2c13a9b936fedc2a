/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - writes weights to a directory for diffusers, the authors' programs and others
 *
 *   diffusers     model_index.json, transformer/config.json and its weights, scheduler/scheduler_config.json (Sana);
 *                 for adapters pytorch_lora_weights.safetensors (adapter.h)
 *   authors       model.pth, {"state_dict": ...} under the authors' names
 *   safetensors   model.safetensors under the authors' names; for adapters as diffusers
 *
 * and README.md, which describes them.  Numbers are the checkpoint's, in fp32. VAE and text encoder are not included:
 * model_index.json has no place for them, and a program passes them to from_pretrained().
 */
#ifndef ENGINE_WEIGHTS_EXPORT_H
#define ENGINE_WEIGHTS_EXPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/contract/train_config.h"

struct err;
struct layout;

enum export_format { EXPORT_DIFFUSERS, EXPORT_AUTHORS, EXPORT_SAFETENSORS, EXPORT_FORMATS };

struct export_ask {
    enum export_format         format;
    const struct model_config *cfg;      /* with lora.rank: the weights are those of adapters */
    const struct layout       *layout;
    const float               *weights;
    int                        sample;   /* edge of a latent */
    double                     flow_shift;
    const char                *title;    /* title of README.md */
    const json_t              *card;     /* its rows: texts and numbers by name */
};

/* The format of this name, or EXPORT_FORMATS. */
enum export_format export_format(const char *name);
/* ERR_USAGE: this model does not have this format. Checked before anything is read. */
int export_check(const struct export_ask *ask, struct err *err);
/* Writes to `dir`, an empty directory; files and directories are synced. */
int export_write(const struct export_ask *ask, const char *dir, struct err *err);

#endif
