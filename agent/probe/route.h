/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - the network interface that reaches an address, by the kernel's rules
 *
 * Pure: no clock, no I/O.
 * Uses `routes` of the facts: the kernel's main IPv4 routing table. Policy rules (by source or
 * mark) are not considered.
 */
#ifndef AGENT_PROBE_ROUTE_H
#define AGENT_PROBE_ROUTE_H

#include <jansson.h>

/* The interface's name, valid as long as the facts; NULL: no route, or no IPv4 address. The
 * longest prefix wins, then the smallest metric. */
const char *route_interface(const json_t *facts, const char *address);

#endif
