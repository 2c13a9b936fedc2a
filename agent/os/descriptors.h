/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - close a range of file descriptors
 *
 * Uses close_range(2) (Linux 5.9); on older kernels descriptors are closed one by one. Nothing
 * here allocates, so it may be called between fork() and exec().
 */
#ifndef AGENT_OS_DESCRIPTORS_H
#define AGENT_OS_DESCRIPTORS_H

/* From `first` to `last`, inclusive; ~0U means all above. Descriptors that are not open are
 * ignored. */
void descriptors_close(unsigned first, unsigned last);

#endif
