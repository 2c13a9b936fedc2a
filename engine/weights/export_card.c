/* SPDX-License-Identifier: Apache-2.0 */
/* export_card.c - README.md of exported weights: what they are, from what, and how to load them */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/weights/adapter.h"
#include "engine/weights/export_internal.h"

static void row(FILE *f, const char *name, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    fprintf(f, "| %s | %s |\n", name, text ? text : json_string_value(value));
    free(text);
}

static void how(FILE *f, const struct export_ask *a)
{
    fprintf(f, "\n## Loading\n\n");
    if (a->cfg->lora.rank > 0)
        fprintf(f, "    pipeline = SanaPipeline.from_pretrained(BASE)\n"
                "    pipeline.load_lora_weights(\"DIR\", weight_name=\"" ADAPTER_FILE "\")\n\n"
                "BASE has the weights that the adapters were trained on. Rank and alpha are in the file's header.\n");
    else if (a->format == EXPORT_DIFFUSERS)
        fprintf(f, "    pipeline = SanaPipeline.from_pretrained(\"DIR\", vae=VAE, text_encoder=ENCODER, tokenizer="
                "TOKENIZER)\n\nVAE, text encoder and tokenizer are those that the model was trained with; they are not "
                "in this directory.\n");
    else if (a->format == EXPORT_AUTHORS)
        fprintf(f, "model.pth has {\"state_dict\": ...} under the authors' names, as their programs load it.\n");
    else
        fprintf(f, "model.safetensors has the weights under the authors' names.\n");
    if (a->cfg->lora.rank == 0)
        fprintf(f, "\nWith jobctl: `train: {model: {weights: DIR}}`, or `jobctl-train inspect DIR`.\n");
}

int export_card(const struct export_ask *a, const char *dir, struct err *err)
{
    const char *name;
    json_t *value;
    const int fd = export_open(dir, "README.md", err);
    FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");
    if (!f)
        return fd < 0 ? -1 : export_close(fd, "README.md", err_set(err, ERR_SYSTEM, "cannot write README.md"), err);
    fprintf(f, "# %s\n\n| | |\n|---|---|\n", a->title);
    json_object_foreach((json_t *)(uintptr_t)a->card, name, value)
        row(f, name, value);
    how(f, a);
    const bool bad = ferror(f);
    const int rc = fclose(f) != 0 || bad ? err_set(err, ERR_SYSTEM, "cannot write %s/README.md", dir) : 0;
    return export_close(fd, "README.md", rc, err);
}
