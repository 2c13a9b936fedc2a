/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - queries about a parsed module, and its destruction */
#include "tests/ptx/code.h"

#include <stdlib.h>
#include <string.h>

static void free_variables(struct ptx_variable *v, int n)
{
    for (int i = 0; i < n; i++) {
        free(v[i].name);
        free(v[i].data);
    }
    free(v);
}

static void free_entry(struct ptx_entry *e)
{
    free_variables(e->params, e->param_count);
    free(e->name);
    free(e->code);
    free(e->operands);
    free(e->constants);
    free(e->pool);
    free(e->valid);
}

void ptx_free(struct ptx_module *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->entry_count; i++)
        free_entry(&m->entries[i]);
    free_variables(m->variables, m->variable_count);
    free(m->entries);
    free(m->name);
    free(m->text);
    free(m);
}

const struct ptx_entry *ptx_find(const struct ptx_module *m, const char *name)
{
    for (int i = 0; i < m->entry_count; i++)
        if (strcmp(m->entries[i].name, name) == 0)
            return &m->entries[i];
    return NULL;
}

const char *ptx_name(const struct ptx_entry *e)
{
    return e->name;
}

size_t ptx_params(const struct ptx_entry *e)
{
    return e->param_bytes;
}

bool ptx_param(const struct ptx_entry *e, int i, size_t *at, size_t *bytes)
{
    if (i < 0 || i >= e->param_count)
        return false;
    *at = e->params[i].at;
    *bytes = e->params[i].bytes;
    return true;
}

size_t ptx_shared(const struct ptx_entry *e)
{
    return e->fixed_bytes;
}
