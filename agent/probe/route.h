/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - over which interface an address is reached, as the kernel would choose
 *
 * Pure: no clock, no I/O.
 * From `routes` of the facts, which are those of the kernel's main table (IPv4).  Rules for
 * single sources or marks are not seen.
 */
#ifndef AGENT_PROBE_ROUTE_H
#define AGENT_PROBE_ROUTE_H

#include <jansson.h>

/* The interface's name, which lives as long as the facts; NULL: no route, or no IPv4 address. The
 * narrowest route counts, of equal ones the one with the smallest metric. */
const char *route_interface(const json_t *facts, const char *address);

#endif
