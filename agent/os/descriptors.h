/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - close what a process has open and must not keep
 *
 * close_range(2) is younger (Linux 5.9) than kernels that clusters run: there each is closed by itself.
 * Nothing here allocates, so that it can be called between fork() and exec().
 */
#ifndef AGENT_OS_DESCRIPTORS_H
#define AGENT_OS_DESCRIPTORS_H

/* From `first` to `last`, both included; ~0U: all above. Those that are not open do not matter. */
void descriptors_close(unsigned first, unsigned last);

#endif
