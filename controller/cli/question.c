/* SPDX-License-Identifier: Apache-2.0 */
/* question.c - see question.h */
#include "controller/cli/question.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "controller/cli/command.h"

enum { LOOK_MS = 100 };

bool question_possible(const struct call *call)
{
    return isatty(STDIN_FILENO) && !call->json;
}

int question_confirm(struct call *call, const char *question, const char *otherwise)
{
    char line[16];
    if (options_has(&call->options, "yes"))
        return 1;
    fflush(call->out.file);
    fprintf(stderr, "%s [y/N] ", question);
    if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
        return 1;
    fprintf(call->out.file, "%s\n", otherwise);
    return 0;
}

/* The first letter of a line; 0: an empty line, -1: none, as a signal came. Not by stdio, which would read on. */
static int answer(const volatile int *stop)
{
    char line[128];
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!*stop && poll(&in, 1, LOOK_MS) <= 0)
        ; /* a signal before poll() does not end it */
    if (*stop || read(STDIN_FILENO, line, sizeof(line)) <= 0)
        return -1;
    return isalpha((unsigned char)line[0]) ? tolower((unsigned char)line[0]) : 0;
}

bool question_yes(const struct call *call, const char *question)
{
    static const volatile int never = 0;
    fflush(call->out.file);
    fprintf(stderr, "%s ", question);
    return answer(&never) == 'y';
}

enum question_leave question_leave(const struct call *call, long long id, const volatile int *stop)
{
    for (;;) {
        fflush(call->out.file);
        fprintf(stderr, "Job %lld: [l]eave it running, [c]ancel it, or Enter to keep watching? ", id);
        const int letter = answer(stop);
        if (letter < 0)
            fputc('\n', stderr);
        if (letter == 'l' || letter < 0)
            return QUESTION_LEAVE;
        if (letter == 'c')
            return QUESTION_CANCEL;
        if (letter == 0)
            return QUESTION_STAY;
    }
}
