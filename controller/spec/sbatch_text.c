/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch_text.c - see sbatch_text.h */
#include "controller/spec/sbatch_text.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/err.h"

const char *const *sbatch_text_extras(void)
{
    static const char *const extras[] = {
        "constraint", "exclude", "exclusive", "licenses", "mem", "nodelist", "qos", "reservation",
        NULL,
    };
    return extras;
}

int sbatch_text_check(const char *text, struct err *err)
{
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-,:@%+/&|*()[]=", *p))
            return err_set(err, ERR_USAGE, "\"%.80s\" is not allowed in a batch script; use "
                           "letters, digits and ._-,:@%%+/&|*()[]=", text);
    return 0;
}
