/* SPDX-License-Identifier: Apache-2.0 */
/* spec_help.c - see spec_help.h */
#include "controller/help/spec_help.h"

#include <stdio.h>
#include <string.h>

#include "controller/base/terminal.h"
#include "controller/help/key_text.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"

enum { LINE = 600, NAME_COLUMNS = 20 };

/* The keys that most jobs use, each with a value for its example. */
static const struct {
    const char *path, *value;
} often[] = {
    {"name", "sana-icons"}, {"resources.nodes", "2"}, {"resources.gpus", "8"}, {"resources.ranks", "8"},
    {"resources.cpus", "16"}, {"launch", "slurm"}, {"env", "{NCCL_DEBUG: INFO}"}, {"workdir", "/home/me/project"},
    {"image.image", "nvcr.io/nvidia/pytorch:25.01-py3"}, {"setup", "pip install -r requirements.txt"},
    {"run", "python train.py --resume auto"}, {"train.config", "configs/Sana_600M_img512.yaml"},
    {"train.model.preset", "sana-600m"}, {"train.model.weights", "hf://OWNER/REPO/model.safetensors"},
    {"train.lora.rank", "16"}, {"train.data.path", "/data/pictures"}, {"train.data.prompt", "a photo of a dog"},
    {"train.data.encoders", "sana"}, {"train.data.vae", "hf://OWNER/REPO/vae"},
    {"train.data.text_encoder", "hf://OWNER/REPO/text_encoder"}, {"train.data.resolution", "512"},
    {"train.batch.global", "256"}, {"train.batch.micro", "8"}, {"train.steps", "20000"},
    {"train.optimizer.type", "came"}, {"train.optimizer.lr", "1.0e-4"}, {"train.schedule.warmup", "1000"},
    {"train.ema", "0.9999"}, {"train.validate.prompts", "[a red house, a cat on a sofa]"},
    {"checkpoint.every", "10m"}, {"checkpoint.keep", "3"}, {"checkpoint.dir", "/scratch/me/run1"}, {"retry.max", "10"},
    {"secrets", "[HF_TOKEN, WANDB_API_KEY]"}, {"after", "[7, afterany:8]"}, {"max_duration", "24h"},
    {"array", "0-99%8"}, {"sweep", "{train.optimizer.lr: [1.0e-4, 3.0e-4]}"}, {"hosts", "[gpu1, gpu2]"},
    {"slurm.partition", "gpu"}, {"slurm.time", "12h"}, {"snapshot", "true"}, {"notify.to", "[team]"},
    {"watch[].name", "loss"}, {"watch[].pattern", "'loss: ([0-9.]+)'"}, {"watch[].below", "10"},
    {"watch[].every", "5m"}, {"hang.silent", "30m"}, {"image.mounts", "['/data:/data:ro']"}, {"resume", "none"},
};
enum { OFTEN = 43 };    /* the rest are examples only */

static const char *value_of(const char *path)
{
    for (size_t i = 0; i < sizeof(often) / sizeof(often[0]); i++)
        if (strcmp(often[i].path, path) == 0)
            return often[i].value;
    return NULL;
}

/* Is it a key below the map `path`? */
static bool is_below(const char *key, const char *path)
{
    const size_t n = strlen(path);
    return strncmp(key, path, n) == 0 && (key[n] == '.' || key[n] == '[');
}

static bool is_often(const char *path)
{
    for (int i = 0; i < OFTEN; i++)
        if (strcmp(often[i].path, path) == 0 || is_below(often[i].path, path))
            return true;
    return false;
}

static void print_row(const struct terminal *t, const struct spec_row *row)
{
    const struct spec_field *f = row->field;
    char def[64], line[LINE], shown[LINE];
    int depth = 0;
    for (const char *p = row->path; *p; p++)
        depth += *p == '.';
    key_text_default(def, sizeof(def), f);
    if (f->type == FIELD_MAP)
        snprintf(line, sizeof(line), "%*s%s: %s", depth * 2, "", spec_row_leaf(row->path), f->help);
    else
        snprintf(line, sizeof(line), "%*s%-*s %-13s %-9s %s%s%s", depth * 2, "", NAME_COLUMNS - depth * 2,
                 spec_row_leaf(row->path), key_text_type(f), def, f->help, f->choices ? ": " : "",
                 f->choices ? f->choices : "");
    terminal_fit(t, shown, sizeof(shown), line, t->width);
    fprintf(t->file, "  %s\n", shown);
}

void spec_help_list(const struct terminal *t, bool all)
{
    struct spec_row row;
    size_t cursor = 0;
    fprintf(t->file, "A job spec is a YAML file with these keys (type, default, meaning):\n\n");
    while (spec_row_next(&row, &cursor))
        if (all || is_often(row.path))
            print_row(t, &row);
    fprintf(t->file, "\nDurations are 30s, 5m, 1h 30m or \"24:00:00\". jobctl help spec KEY shows one with an "
            "example%s.\nSee docs/SPEC.md for more.\n", all ? "" : ",\njobctl help spec --all every key");
}

/* ---- one key ---- */

static const char *example_of(const struct spec_row *row, char def[64])
{
    static const char *const values[] = {
        [FIELD_BOOL] = "true", [FIELD_INT] = "8", [FIELD_NUMBER] = "0.5", [FIELD_STRING] = "text",
        [FIELD_PATH] = "/path/to/it", [FIELD_NUMBERS] = "[0.9, 0.95]", [FIELD_STRINGS] = "[one, other]",
        [FIELD_STRING_MAP] = "{NAME: value}", [FIELD_DURATION] = "5m", [FIELD_RANGE] = "5s..5m",
        [FIELD_EVERY] = "500 steps",
    };
    const struct spec_field *f = row->field;
    const char *value = value_of(row->path);
    key_text_default(def, 64, f);
    if (value)
        return value;
    if (f->choices && f->type == FIELD_ENUM) {
        snprintf(def, 64, "%.*s", (int)strcspn(f->choices, "|"), f->choices);
        return def;
    }
    return strcmp(def, "-") == 0 || strcmp(def, "auto") == 0 ? values[f->type] : def;
}

/* The path as nested maps, with the value at its end. */
static void print_example(const struct terminal *t, const struct spec_row *row)
{
    char def[64];
    int depth = 1;
    const char *value = example_of(row, def), *item = "";
    fprintf(t->file, "\n");
    for (const char *p = row->path; *p; depth++) {
        const int n = (int)strcspn(p, ".[");
        const char *end = p + n + (strncmp(p + n, "[]", 2) == 0 ? 2 : 0);
        fprintf(t->file, "  %*s%s%.*s:", 2 * depth, "", item, n, p);
        fprintf(t->file, *end ? "\n" : " %s\n", value);
        depth += item[0] != '\0';
        item = end > p + n ? "- " : "";
        p = *end == '.' ? end + 1 : end;
    }
}

static void print_key(const struct terminal *t, const struct spec_row *row)
{
    const struct spec_field *f = row->field;
    struct spec_row below;
    size_t cursor = 0;
    char def[64], text[LINE];
    key_text_default(def, sizeof(def), f);
    fprintf(t->file, "%s%s%s: %s%s%s\n", terminal_style(t, STYLE_BOLD), row->path, terminal_style(t, STYLE_PLAIN),
            key_text_type(f), strcmp(def, "-") == 0 ? "" : ", default ", strcmp(def, "-") == 0 ? "" : def);
    snprintf(text, sizeof(text), "%s%s%s", f->help, f->choices ? ": " : "", f->choices ? f->choices : "");
    terminal_wrap(t, text, 2);
    if (f->type != FIELD_MAP && f->type != FIELD_ITEMS)
        print_example(t, row);
    while (spec_row_next(&below, &cursor))
        if (is_below(below.path, row->path))
            print_row(t, &below);
}

int spec_help_key(const struct terminal *t, const char *key, struct err *err)
{
    const char *other = spec_row_alias(key), *dot = strrchr(key, '.');
    const char *path = other ? other : key;
    const bool whole = spec_row_find(path) != NULL;
    struct spec_row row;
    size_t cursor = 0;
    int found = 0;
    while (spec_row_next(&row, &cursor))
        if (strcmp(row.path, path) == 0 || (!whole && strcmp(spec_row_leaf(row.path), path) == 0)) {
            if (found++)
                fputc('\n', t->file);
            print_key(t, &row);
        }
    char map[SPEC_PATH], near[LINE];
    if (found)
        return 0;
    snprintf(map, sizeof(map), "%.*s", dot ? (int)(dot - key) : 0, key);
    spec_suggest(near, sizeof(near), map, dot ? dot + 1 : key);
    return err_set(err, ERR_USAGE, "a job spec has no key \"%.80s\"%.400s", key, near);
}
