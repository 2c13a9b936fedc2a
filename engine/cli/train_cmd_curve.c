/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_curve.c - jobctl-train curve: plot the loss of a run in the terminal or as PNG */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/cli/train_cmd.h"
#include "engine/contract/err.h"
#include "engine/contract/exit_code.h"
#include "engine/train/curve.h"
#include "engine/train/loss_log.h"

/* Same rule as the C library: the first of these that is set and not empty. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *v = getenv(names[i]);
        if (v && *v) {
            const char *dot = strchr(v, '.');
            return dot && (strncasecmp(dot, ".utf-8", 6) == 0 || strncasecmp(dot, ".utf8", 5) == 0);
        }
    }
    return false;
}

static int terminal_width(void)
{
    struct winsize ws;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 40)
        return ws.ws_col < 120 ? ws.ws_col : 120;
    return 80;
}

int train_cmd_curve(int argc, char **argv)
{
    const char *metrics = NULL, *png = NULL;
    bool quiet = false;
    const struct train_cmd_option options[] = {
        {.name = "--metrics", .value = &metrics, .required = true},
        {.name = "--png", .value = &png},
        {.name = "--quiet", .flag = &quiet},
        {.name = NULL},
    };
    struct loss_log_point *points = NULL;
    struct err err = {0};
    int n = 0;
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    if (loss_log_read(&points, &n, metrics, &err) == 0 && !quiet)
        curve_print(stdout, points, n, terminal_width(), 14, locale_is_utf8());
    if (err.code == ERR_NONE && png)
        curve_png(points, n, png, &err);
    free(points);
    return err.code ? train_cmd_fail("curve", &err) : EXIT_DONE;
}
