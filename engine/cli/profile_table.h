/* SPDX-License-Identifier: Apache-2.0 */
/* profile_table.h - a profile (kernels/cuda.h) as a table on stdout, the longest kernels first */
#ifndef ENGINE_CLI_PROFILE_TABLE_H
#define ENGINE_CLI_PROFILE_TABLE_H

struct kern_profile_row;

/* A line per row: "profile", operation, kernel, grid, calls, ms of all of them, the share of `all_ms`, and TFLOP/s of a
 * product; "-" where there is none. tests/gpu/roofline.sh reads these lines. Then the sum, beside the `all_ms` of `what`
 * ("a step") by the clock: what is missing passed between kernels. */
void profile_table_print(const struct kern_profile_row *rows, int count, double all_ms, const char *what);

#endif
