/* SPDX-License-Identifier: Apache-2.0 */
/* xid.h - what the numbers mean by which NVIDIA's driver tells of trouble
 *
 * Pure: no clock, no I/O.
 * Whether one of them proves that the GPU is broken is the business of agent/core/rules.h.
 */
#ifndef AGENT_PROBE_XID_H
#define AGENT_PROBE_XID_H

/* "it has fallen off the bus"; for a number that is not known, where to look it up. */
const char *xid_meaning(int number);

#endif
