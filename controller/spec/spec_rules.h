/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rules.h - what must hold between keys of a spec that are each right by themselves */
#ifndef CONTROLLER_SPEC_SPEC_RULES_H
#define CONTROLLER_SPEC_SPEC_RULES_H

#include <jansson.h>

struct err;
struct spec_diagnostics;

/* `spec` is canonical but for its paths. A rule that reads a key which `faults` distrusts is left out. */
void spec_rules_check(const json_t *spec, struct spec_diagnostics *diagnostics);

/* Is it a name that a job may have? On failure a sentence without the key. */
int spec_name_check(const char *name, struct err *err);

/* May a host be called so? On failure a sentence without the key. */
int spec_host_check(const char *name, struct err *err);

#endif
