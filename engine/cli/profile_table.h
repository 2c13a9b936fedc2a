/* SPDX-License-Identifier: Apache-2.0 */
/* profile_table.h - prints a profile (kernels/cuda.h) as a table on stdout, slowest kernels first */
#ifndef ENGINE_CLI_PROFILE_TABLE_H
#define ENGINE_CLI_PROFILE_TABLE_H

struct kern_profile_row;

/* One line per row: "profile", operation, kernel, grid, calls, total ms, share of `all_ms`, and TFLOP/s for a
 * product; "-" if there is none. tests/gpu/roofline.sh reads these lines. Then the sum, next to `all_ms`, the
 * duration of `what` ("a step") by the clock: the difference is time between kernels. */
void profile_table_print(const struct kern_profile_row *rows, int count, double all_ms, const char *what);

#endif
