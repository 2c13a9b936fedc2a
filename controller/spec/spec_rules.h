/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rules.h - constraints between keys of a spec that are each valid by themselves */
#ifndef CONTROLLER_SPEC_SPEC_RULES_H
#define CONTROLLER_SPEC_SPEC_RULES_H

#include <jansson.h>

struct err;
struct spec_diagnostics;

/* `spec` is canonical except for its paths. A rule that reads a suppressed key is skipped. */
void spec_rules_check(const json_t *spec, struct spec_diagnostics *diagnostics);

/* Checks a job name. On failure *err has a sentence without the key. */
int spec_name_check(const char *name, struct err *err);

/* Checks a host name. On failure *err has a sentence without the key. */
int spec_host_check(const char *name, struct err *err);

#endif
