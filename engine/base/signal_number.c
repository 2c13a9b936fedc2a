/* SPDX-License-Identifier: Apache-2.0 */
/* signal_number.c - see signal_number.h */
#include "engine/base/signal_number.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

int signal_number(const char *name, int otherwise)
{
    static const struct { const char *name; int number; } all[] = {
        {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT}, {"SIGUSR1", SIGUSR1},
        {"SIGUSR2", SIGUSR2}, {"SIGHUP", SIGHUP}, {"SIGQUIT", SIGQUIT}};
    for (size_t i = 0; name && i < ARRAY_LEN(all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].number;
    return otherwise;
}
