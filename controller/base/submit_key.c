/* SPDX-License-Identifier: Apache-2.0 */
/* submit_key.c - see submit_key.h */
#include "controller/base/submit_key.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/err.h"

int submit_key_make(char key[SUBMIT_KEY_SIZE], struct err *err)
{
    unsigned char bits[16];
    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for the key of a submit");
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(key + 2 * i, 3, "%02x", bits[i]);
    return 0;
}

int submit_key_check(const char *key, struct err *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strlen(key);
    if (n > 0 && n < SUBMIT_KEY_SIZE && strspn(key, allowed) == n)
        return 0;
    return err_set(err, ERR_USAGE, "key '%.80s': expected 1 to %d letters, digits, '.', '_' or '-'", key,
                   SUBMIT_KEY_SIZE - 1);
}
