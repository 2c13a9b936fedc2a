/* SPDX-License-Identifier: Apache-2.0 */
/* roff.c - see roff.h */
#include "engine/base/roff.h"

#include <stdbool.h>
#include <string.h>

/* A text as roff shows it unchanged; these characters have a meaning, or another shape when typeset. A line may end
 * after each alternative: lists of them are longer than a line. */
static void escape(FILE *f, const char *s, size_t n)
{
    static const struct { char c; const char *as; } rows[] = {
        {'\\', "\\e"}, {'-', "\\-"}, {'`', "\\(ga"}, {'\'', "\\(aq"}, {'^', "\\(ha"}, {'~', "\\(ti"},
        {'|', "|\\:"},
    };
    if (n > 0 && *s == '.')
        fputs("\\&", f);
    for (; n > 0; s++, n--) {
        size_t i = 0, count = sizeof(rows) / sizeof(rows[0]);
        while (i < count && rows[i].c != *s)
            i++;
        if (i < count)
            fputs(rows[i].as, f);
        else
            fputc(*s, f);
    }
}

/* Line by line; an empty line becomes `blank`, and a filled text does not keep its indentation. */
static void lines(FILE *f, const char *s, const char *blank, bool filled)
{
    while (*s) {
        if (filled)
            s += strspn(s, " ");
        const size_t n = strcspn(s, "\n");
        if (n > 0)
            escape(f, s, n);
        else
            fputs(blank, f);
        fputc('\n', f);
        s += n + (s[n] == '\n');
    }
}

static void bold(FILE *f, const char *s)
{
    fputs("\\fB", f);
    escape(f, s, strlen(s));
    fputs("\\fR", f);
}

void roff_page(FILE *f, const char *name, const char *section, const char *date, const char *version,
               const char *summary)
{
    fputs(".TH ", f);
    for (const char *p = name; *p; p++)
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, f);
    fprintf(f, " %s %s \"%s\"\n.ad l\n", section, date, version);
    roff_section(f, "NAME");
    escape(f, name, strlen(name));
    fputs(" \\- ", f);
    lines(f, summary, "", true);
}

void roff_section(FILE *f, const char *title)
{
    fprintf(f, ".SH %s\n", title);
}

void roff_text(FILE *f, const char *text)
{
    lines(f, text, ".PP", true);
}

void roff_example(FILE *f, const char *text)
{
    fputs(".nf\n.RS\n", f);
    lines(f, text, "", false);
    fputs(".RE\n.fi\n", f);
}

void roff_term(FILE *f, const char *term, const char *text)
{
    fputs(".TP\n", f);
    bold(f, term);
    fputc('\n', f);
    lines(f, text, ".PP", true);
}

void roff_reference(FILE *f, const char *name, const char *section, int last)
{
    bold(f, name);
    fprintf(f, "(%s)%s\n", section, last ? "" : ",");
}
