/* SPDX-License-Identifier: Apache-2.0 */
/* export_internal.h - shared by export*.c only */
#ifndef ENGINE_WEIGHTS_EXPORT_INTERNAL_H
#define ENGINE_WEIGHTS_EXPORT_INTERNAL_H

#include "engine/weights/export.h"

/* export_file.c */
/* A new file of `dir`, or -1. */
int export_open(const char *dir, const char *name, struct err *err);
/* Syncs and closes it; `rc` is the result of the write, and returned if it is not 0. */
int export_close(int fd, const char *name, int rc, struct err *err);
/* JSON into a file; takes the reference. */
int export_json(const char *dir, const char *name, json_t *value, struct err *err);

/* export_config.c */
json_t *export_index(void);
json_t *export_scheduler(double flow_shift);
/* export_card.c: README.md */
int export_card(const struct export_ask *ask, const char *dir, struct err *err);

#endif
