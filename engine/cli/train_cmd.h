/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd.h - interface of the subcommands of jobctl-train, one file each (train_cmd_NAME.c)
 *
 * argv[0] is the subcommand's name.  Each returns an enum exit_code.
 */
#ifndef ENGINE_CLI_TRAIN_CMD_H
#define ENGINE_CLI_TRAIN_CMD_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct model;
struct pretrained;
struct train_spec;

int train_cmd_train(int argc, char **argv);
int train_cmd_sample(int argc, char **argv);
int train_cmd_draw(int argc, char **argv); /* sample --weights */
int train_cmd_selftest(int argc, char **argv);
int train_cmd_plan(int argc, char **argv);
int train_cmd_verify_data(int argc, char **argv);
int train_cmd_verify_resume(int argc, char **argv);
int train_cmd_bench(int argc, char **argv);
int train_cmd_peers(int argc, char **argv);
int train_cmd_sum(int argc, char **argv);
int train_cmd_export(int argc, char **argv);
int train_cmd_inspect(int argc, char **argv);
int train_cmd_tokenize(int argc, char **argv);
int train_cmd_encode(int argc, char **argv);
int train_cmd_vae(int argc, char **argv);

/* An option with a value, "--name VALUE" or "--name=VALUE"; `value` NULL: a flag. */
struct train_cmd_option {
    const char  *name;  /* "--spec" */
    const char **value;
    bool        *flag;
    bool         required;
};

/* Fills the options; the table ends with a row whose name is NULL. Any other argument is an
 * error on stderr; returns 0, or EXIT_CONFIG. */
int train_cmd_parse(int argc, char **argv, const struct train_cmd_option *options);

/* The job spec in a JSON file, or the one in the output of `jobctl submit --dry-run --json`; a new
 * reference, or NULL. */
json_t *train_cmd_load_spec(const char *file, struct err *err);

/* path[CHECKPOINT_PATH]: `checkpoint`, or if it is NULL the newest one in `dir`. */
int train_cmd_find_checkpoint(char *path, const char *checkpoint, const char *dir, struct err *err);
/* Reads the frozen weights under the adapters of a checkpoint with these notes into `m`; ERR_USAGE: the weights
 * differ. */
int train_cmd_read_base(struct model *m, struct pretrained *p, const struct train_spec *spec, const json_t *notes,
                        struct err *err);

/* Runs `work` with a temporary directory, which is removed afterwards; returns its result. */
int train_cmd_in_scratch(int (*work)(void *arg, const char *dir, struct err *err), void *arg, struct err *err);

/* Prints "jobctl-train NAME: sentence" and returns the exit code of the error. */
int train_cmd_fail(const char *name, const struct err *err);

#endif
