/* SPDX-License-Identifier: Apache-2.0 */
/* host_terminal.c - see host_terminal.h */
#include "controller/ssh/host_terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t raw, resized;

static void note_size(int signo)
{
    (void)signo;
    resized = 1;
}

bool host_terminal_wanted(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static struct winsize window(void)
{
    struct winsize w = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0 || w.ws_row == 0)
        w = (struct winsize){.ws_col = 80, .ws_row = 24};
    return w;
}

void host_terminal_open(ssh_channel c)
{
    const char *term = getenv("TERM");
    const struct winsize w = window();
    struct termios ours;
    const struct sigaction action = {.sa_handler = note_size, .sa_flags = SA_RESTART};
    ssh_channel_request_pty_size(c, term && term[0] ? term : "dumb", w.ws_col, w.ws_row);
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return;
    ours = before;
    cfmakeraw(&ours);
    raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &ours) == 0;
    atexit(host_terminal_close);
    sigaction(SIGWINCH, &action, NULL);
}

void host_terminal_close(void)
{
    if (raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    raw = 0;
}

void host_terminal_resize(ssh_channel c)
{
    if (!resized)
        return;
    resized = 0;
    const struct winsize w = window();
    ssh_channel_change_pty_size(c, w.ws_col, w.ws_row);
}
