/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - see tokenizer_internal.h; a hash table with open addressing, its texts in one block */
#include "engine/text/tokenizer_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"

struct text {
    uint32_t at, n; /* in the block; n 0: none */
};

struct slot {
    struct text text; /* n 0: free */
    int32_t     id;
    uint32_t    hash;
};

struct vocabulary {
    char        *block;
    size_t       used, room;
    struct text *text;        /* by id */
    int          ids, ids_room;
    struct slot *slot;
    size_t       slots, taken; /* slots: a power of 2 */
};

int vocabulary_create(struct vocabulary **out, size_t bytes, struct err *err)
{
    struct vocabulary *v = calloc(1, sizeof(*v));
    if (bytes > UINT32_MAX) {
        free(v);
        return err_set(err, ERR_DATA, "a vocabulary of %zu bytes is larger than the 4 GiB that are supported", bytes);
    }
    if (v) {
        *v = (struct vocabulary){.room = bytes, .slots = 1024, .ids_room = 1024};
        v->block = malloc(bytes + 1);
        v->text = calloc((size_t)v->ids_room, sizeof(*v->text));
        v->slot = calloc(v->slots, sizeof(*v->slot));
    }
    if (!v || !v->block || !v->text || !v->slot) {
        vocabulary_destroy(v);
        return err_set(err, ERR_MEMORY, "no memory for a vocabulary");
    }
    *out = v;
    return 0;
}

void vocabulary_destroy(struct vocabulary *v)
{
    if (!v)
        return;
    free(v->block);
    free(v->text);
    free(v->slot);
    free(v);
}

/* The slot that has the text, or the free one where it belongs. */
static struct slot *find(const struct vocabulary *v, const char *text, size_t n, uint32_t hash)
{
    for (size_t i = hash & (v->slots - 1);; i = (i + 1) & (v->slots - 1)) {
        struct slot *s = &v->slot[i];
        if (!s->text.n || (s->hash == hash && s->text.n == n && memcmp(v->block + s->text.at, text, n) == 0))
            return s;
    }
}

static uint32_t hash_of(const char *text, size_t n)
{
    return (uint32_t)digest_word(text, n, 0);
}

/* At most half of the slots are taken. */
static int grow_slots(struct vocabulary *v, struct err *err)
{
    if (2 * (v->taken + 1) <= v->slots)
        return 0;
    struct vocabulary twice = *v;
    twice.slots = 2 * v->slots;
    if (!(twice.slot = calloc(twice.slots, sizeof(*twice.slot))))
        return err_set(err, ERR_MEMORY, "no memory for a vocabulary of %zu pieces", v->taken);
    for (size_t i = 0; i < v->slots; i++)
        if (v->slot[i].text.n)
            *find(&twice, v->block + v->slot[i].text.at, v->slot[i].text.n, v->slot[i].hash) = v->slot[i];
    free(v->slot);
    *v = twice;
    return 0;
}

static int grow_ids(struct vocabulary *v, int id, struct err *err)
{
    if (id < 0 || id > VOCABULARY_ID_MAX)
        return err_set(err, ERR_DATA, "the id %d is outside of 0 to %d", id, VOCABULARY_ID_MAX);
    if (id < v->ids_room)
        return 0;
    int room = v->ids_room;
    while (room <= id)
        room *= 2;
    struct text *t = realloc(v->text, (size_t)room * sizeof(*t));
    if (!t)
        return err_set(err, ERR_MEMORY, "no memory for a vocabulary of %d ids", room);
    memset(t + v->ids_room, 0, (size_t)(room - v->ids_room) * sizeof(*t));
    v->text = t;
    v->ids_room = room;
    return 0;
}

static int add_text(struct vocabulary *v, struct text *out, int id, const char *text, size_t n, struct err *err)
{
    if (n == 0 || n > VOCABULARY_PIECE_MAX || n > v->room - v->used)
        return err_set(err, ERR_DATA, "the piece with id %d has %zu bytes; 1 to %d are possible", id, n,
                       VOCABULARY_PIECE_MAX);
    if (grow_slots(v, err) < 0)
        return -1;
    const uint32_t hash = hash_of(text, n);
    struct slot *s = find(v, text, n, hash);
    if (s->text.n)
        return err_set(err, ERR_DATA, "the piece \"%.*s\" has two ids, %d and %d", (int)(n < 80 ? n : 80), text, s->id,
                       id);
    *out = (struct text){(uint32_t)v->used, (uint32_t)n};
    *s = (struct slot){*out, id, hash};
    memcpy(v->block + v->used, text, n);
    v->used += n;
    v->taken++;
    return 0;
}

int vocabulary_add(struct vocabulary *v, int id, const char *text, size_t n, struct err *err)
{
    struct text at;
    if (grow_ids(v, id, err) < 0)
        return -1;
    if (v->text[id].n)
        return err_set(err, ERR_DATA, "the id %d has two pieces", id);
    if (add_text(v, &at, id, text, n, err) < 0)
        return -1;
    v->text[id] = at;
    if (id >= v->ids)
        v->ids = id + 1;
    return 0;
}

int vocabulary_alias(struct vocabulary *v, int id, const char *text, size_t n, struct err *err)
{
    struct text at;
    return add_text(v, &at, id, text, n, err);
}

int vocabulary_size(const struct vocabulary *v)
{
    return v->ids;
}

int vocabulary_find(const struct vocabulary *v, const char *text, size_t n)
{
    const struct slot *s = n ? find(v, text, n, hash_of(text, n)) : NULL;
    return s && s->text.n ? s->id : -1;
}

const char *vocabulary_text(const struct vocabulary *v, int id, size_t *n)
{
    if (id < 0 || id >= v->ids || !v->text[id].n)
        return NULL;
    *n = v->text[id].n;
    return v->block + v->text[id].at;
}
