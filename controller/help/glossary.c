/* SPDX-License-Identifier: Apache-2.0 */
/* glossary.c - see glossary.h; the page is assembled into the program */
#include "controller/help/glossary.h"

#include <stdio.h>
#include <string.h>

#include "controller/base/terminal.h"

enum { CELLS = 3, CELL = 400, TERM_COLUMNS = 18 };

__asm__(".section .rodata\njobctl_glossary:\n.incbin \"docs/GLOSSARY.md\"\n.byte 0\n"
        ".previous\n");
extern const char jobctl_glossary[];

/* A cell without the spaces around it and the backticks in it. */
static void cell_text(char out[CELL], const char *from, size_t len)
{
    size_t n = 0;
    for (; len && *from == ' '; from++)
        len--;
    for (; len && from[len - 1] == ' ';)
        len--;
    for (size_t i = 0; i < len && n + 1 < CELL; i++)
        if (from[i] != '`')
            out[n++] = from[i];
    out[n] = '\0';
}

/* Is the line a row with a term? Its cells, then. */
static bool row_of(char cells[CELLS][CELL], const char *line)
{
    if (strncmp(line, "| ", 2) != 0 || strncmp(line, "| term |", 8) == 0)
        return false;
    for (int i = 0; i < CELLS; i++) {
        const size_t len = strcspn(++line, "|\n");
        cell_text(cells[i], line, len);
        line += len;
    }
    return true;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

static void print_row(const struct terminal *t, char cells[CELLS][CELL])
{
    char text[2 * CELL + 4];
    snprintf(text, sizeof(text), "%s%s%s%s", cells[1], cells[2][0] ? " (" : "", cells[2], cells[2][0] ? ")" : "");
    fprintf(t->file, "  %s%-*s%s ", terminal_style(t, STYLE_BOLD), TERM_COLUMNS, cells[0],
            terminal_style(t, STYLE_PLAIN));
    terminal_hang(t, text, 2 + TERM_COLUMNS + 1);
}

void glossary_print(const struct terminal *t)
{
    char cells[CELLS][CELL];
    fprintf(t->file, "The terms that jobctl prints, with other programs' words for them in brackets.\n");
    for (const char *line = jobctl_glossary; *line; line = next_line(line))
        if (strncmp(line, "## ", 3) == 0)
            fprintf(t->file, "\n%.*s\n", (int)strcspn(line, "\n") - 3, line + 3);
        else if (row_of(cells, line))
            print_row(t, cells);
}
