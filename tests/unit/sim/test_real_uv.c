/* SPDX-License-Identifier: Apache-2.0 */
/* The scenes of test_virtual_uv.c on libuv itself: what the stand-in must do, too. */
#define REAL_UV
#include "tests/unit/sim/test_virtual_uv.c" /* NOLINT(bugprone-suspicious-include) */
