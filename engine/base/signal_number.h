/* SPDX-License-Identifier: Apache-2.0 */
/* signal_number.h - numbers of the signals that a job spec may name */
#ifndef ENGINE_BASE_SIGNAL_NUMBER_H
#define ENGINE_BASE_SIGNAL_NUMBER_H

/* The number of "SIGTERM" and so on; `otherwise` for NULL, "" and names that a spec may not have. */
int signal_number(const char *name, int otherwise);

#endif
