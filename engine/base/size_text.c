/* SPDX-License-Identifier: Apache-2.0 */
/* size_text.c - see size_text.h */
#include "engine/base/size_text.h"

#include <stdio.h>

/* MiB from a tenth on, so that sizes of small models stay comparable. */
const char *size_text(int64_t bytes, char out[SIZE_TEXT])
{
    const double n = (double)bytes;
    if (n < 1024)
        snprintf(out, SIZE_TEXT, "%.0f bytes", n);
    else if (n < 0.1 * 0x1p20)
        snprintf(out, SIZE_TEXT, "%.1f KiB", n / 0x1p10);
    else if (n < 0x1p30)
        snprintf(out, SIZE_TEXT, "%.1f MiB", n / 0x1p20);
    else
        snprintf(out, SIZE_TEXT, "%.2f GiB", n / 0x1p30);
    return out;
}
