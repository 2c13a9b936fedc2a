/* SPDX-License-Identifier: Apache-2.0 */
/* collection_csv.c - metadata.csv of Hugging Face's imagefolder, as if it were metadata.jsonl */
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/json_make.h"
#include "engine/data/collection_internal.h"
#include "engine/data/csv_record.h"

static int column_of(char *const *field, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(field[i], name) == 0)
            return i;
    return -1;
}

/* "text", or the only column besides those of the picture. */
static int text_column(const struct collection_columns *of, char *const *field)
{
    int found = column_of(field, of->n, "text"), others = 0;
    if (found >= 0)
        return found;
    for (int i = 0; i < of->n; i++)
        if (i != of->file && i != of->height && i != of->width) {
            found = i;
            others++;
        }
    return others == 1 ? found : -1;
}

int collection_csv_header(struct collection *c, char *record, struct err *err)
{
    char *field[CSV_FIELDS];
    struct collection_columns *of = &c->columns;
    const size_t mark = strncmp(record, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if ((of->n = csv_record_split(field, record + mark, err)) < 0)
        return -1;
    of->file = column_of(field, of->n, "file_name");
    of->height = column_of(field, of->n, "height");
    of->width = column_of(field, of->n, "width");
    of->text = text_column(of, field);
    if (of->file < 0)
        return err_set(err, ERR_DATA, "expected a first line with the names of the columns, file_name and text, with a comma "
                       "between them");
    if (of->text < 0)
        return err_set(err, ERR_DATA, of->n > 1 ? "several columns could be the caption: name it text"
                                                : "there is no column with the caption: name it text");
    return 0;
}

/* A number, where the field is one. */
static void set_number(json_t *o, const char *name, const char *text)
{
    char *end;
    const double x = strtod(text, &end);
    if (end > text && *end == '\0')
        json_object_set_new(o, name, json_real(x));
}

json_t *collection_csv_line(const struct collection *c, char *record, struct err *err)
{
    char *field[CSV_FIELDS];
    const struct collection_columns *of = &c->columns;
    const int n = csv_record_split(field, record, err);
    if (n < 0)
        return NULL;
    if (n != of->n)
        return err_set(err, ERR_DATA,
                       "the line has %d columns, the first line %d; a caption with a comma stands in quotes", n,
                       of->n), NULL;
    json_t *o = json_make("{s:o, s:o}", "file_name", json_string(field[of->file]), "text", json_string(field[of->text]));
    if (!o)
        return err_set(err, ERR_DATA, "the line is not UTF-8"), NULL;
    if (of->height >= 0 && of->width >= 0) {
        set_number(o, "height", field[of->height]);
        set_number(o, "width", field[of->width]);
    }
    return o;
}
