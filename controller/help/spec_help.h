/* SPDX-License-Identifier: Apache-2.0 */
/* spec_help.h - `jobctl help spec`: the keys of a job spec, or one key with an example */
#ifndef CONTROLLER_HELP_SPEC_HELP_H
#define CONTROLLER_HELP_SPEC_HELP_H

#include <stdbool.h>

struct err;
struct terminal;

/* The keys that most jobs use; all: every key. */
void spec_help_list(const struct terminal *t, bool all);

/* `key` is a path (train.optimizer.lr) or its last part (lr), which several keys may have. An unknown one is
 * ERR_USAGE. */
int spec_help_key(const struct terminal *t, const char *key, struct err *err);

#endif
