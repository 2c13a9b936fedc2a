/* SPDX-License-Identifier: Apache-2.0 */
/* xid.h - meanings of NVIDIA's Xid error numbers
 *
 * Pure: no clock, no I/O.
 * agent/core/rules.h decides which of them prove that a GPU is broken.
 */
#ifndef AGENT_PROBE_XID_H
#define AGENT_PROBE_XID_H

/* "the GPU has fallen off the bus"; for an unknown number, where to look it up. */
const char *xid_meaning(int number);

#endif
