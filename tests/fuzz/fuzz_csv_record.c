/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv_record.c - a record of CSV that somebody else wrote
 *
 * Fields are inside the text, in order; a refusal has a message.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/csv_record.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    char *field[CSV_FIELDS], *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    const size_t length = strlen(text);
    const int n = csv_record_split(field, text, &err);
    PROMISE(n >= 1 || (n == -1 && err.text[0]));
    for (int i = 0; i < n; i++)
        PROMISE(field[i] >= text && field[i] + strlen(field[i]) <= text + length && (i == 0 || field[i] > field[i - 1]));
    csv_record_is_whole(text, length);
    free(text);
    return 0;
}
