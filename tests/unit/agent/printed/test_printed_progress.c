/* SPDX-License-Identifier: Apache-2.0 */
/* test_printed_progress.c - what is read from lines of real training programs, and from lines that are no progress
 *
 * tests/golden/progress/lines.jsonl has the text of each line and its numbers; "none": no progress; "may": fields that
 * may be read or not.  JOBCTL_PROGRESS_LINES names another file of the same form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "agent/printed/printed_progress.h"
#include "agent/printed/progress_pattern.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { TEXT_MAX = 16384 };

/* Output of several lines: those of one record add to each other. */
static void read_output(struct printed_progress *out, char *text)
{
    struct printed_table table = {0};
    *out = (struct printed_progress){.rank = -1};
    for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
        struct printed_progress one;
        printed_progress_line(&one, line, &table);
        printed_progress_merge(out, &one);
    }
}

static bool either_is_right(const json_t *line, const char *field)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(line, "may"), i, name)
        if (strcmp(json_string_value(name), field) == 0)
            return true;
    return false;
}

static bool same(const json_t *want, double got, enum printed_field f)
{
    if (json_is_string(want))
        return isnan(got);
    const double expected = json_number_value(want);
    /* A printed duration is compared to the second. */
    const double slack = f == PRINTED_ETA_S ? 1 : 1e-6 * fabs(expected);
    return fabs(expected - got) <= slack;
}

/* Whether each number was read as it should; says what was not. */
static bool right(const json_t *line, const struct printed_progress *p)
{
    bool ok = true;
    for (int f = 0; f < PRINTED_FIELDS; f++) {
        const char *name = printed_field_name((enum printed_field)f);
        const json_t *want = json_object_get(line, name);
        const bool told = printed_progress_has(p, (enum printed_field)f);
        if (either_is_right(line, name) || (!want && !told))
            continue;
        if (want && told && same(want, p->value[f], (enum printed_field)f))
            continue;
        print_message("%s is %g, expected %g: %.120s\n", name, told ? p->value[f] : NAN,
                      want ? json_number_value(want) : NAN, json_string_value(json_object_get(line, "text")));
        ok = false;
    }
    return ok;
}

struct score { int positive, right, negative, silent; };

static void judge(struct score *s, const json_t *line)
{
    char text[TEXT_MAX];
    struct printed_progress p;
    snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(line, "text")));
    read_output(&p, text);
    const bool ok = right(line, &p);
    if (json_is_true(json_object_get(line, "none"))) {
        s->negative++;
        s->silent += ok;
    } else {
        s->positive++;
        s->right += ok;
    }
}

static struct score judge_file(const char *path)
{
    struct score s = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&text, &size, f) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        assert_non_null(line);
        judge(&s, line);
        json_decref(line);
    }
    free(text);
    fclose(f);
    return s;
}

static void reads_lines_of_real_programs(void **state)
{
    (void)state;
    const char *path = getenv("JOBCTL_PROGRESS_LINES");
    const struct score s = judge_file(path ? path : "tests/golden/progress/lines.jsonl");
    print_message("%d of %d lines of progress to the number, %d of %d other lines silent\n", s.right, s.positive,
                  s.silent, s.negative);
    assert_true(s.positive + s.negative > 0);
    assert_true(s.right * 100 >= s.positive * 95);
    assert_int_equal(s.silent, s.negative);
}

struct row { const char *text; double step, steps, epoch, loss; };

/* Lines of tutorials, of translated programs, and shapes that no program of the corpus has. */
static void reads_other_shapes(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Epoch [1/10], Step [100/600], Loss: 0.1234", 100, 600, 1, 0.1234},
        {"[1,  2000] loss: 2.208", 2000, NAN, 1, 2.208},
        {"loss: 2.303494  [   64/60000]", 64, 60000, NAN, 2.303494},
        {"| epoch   1 |   200/ 2928 batches | lr 5.00 | ms/batch 29.34 | loss  8.07 | ppl  3183.51", 200, 2928, 1, 8.07},
        {"[Epoch 3/10] [Batch 200/938] [D loss: 0.5] [G loss: 1.2]", 200, 938, 3, NAN},
        {"iter_dt 93.56ms; iter 100: train loss 2.97505", 100, NAN, NAN, 2.97505},
        {"Step 5 of 100: loss is 0.25", 5, 100, NAN, 0.25},
        {"step 600/500 loss: 0.25", 600, NAN, NAN, 0.25}, /* no total is below its step */
        {"INFO:root:step=100 loss=0.25 throughput=300 samples/s", 100, NAN, NAN, 0.25},
        {"iter 157: loss 2.6275, time 434.72ms", 157, NAN, NAN, 2.6275},
        {"Schritt 200/5000 - Verlust: 0,25", 200, 5000, NAN, 0.25},
        {"Epoch 2, global step 500: 'val_loss' reached 0.3 (best 0.3), saving model", NAN, NAN, NAN, NAN},
        {"Saved checkpoint to out/ckpt_1000.pt at step 1000", NAN, NAN, NAN, NAN},
        {"=== 12 passed, 3 failed in 4.5s ===", NAN, NAN, NAN, NAN},
        {"Val: step 10/20 loss 0.5", NAN, NAN, NAN, NAN},
        {"hang: {step: 2s}", NAN, NAN, NAN, NAN}, /* a time, not a number of steps */
        {"08/21 02:52 loss: 0.5", NAN, NAN, NAN, 0.5}, /* a date, not the counter of a bar */
    };
    static const enum printed_field fields[] = {PRINTED_STEP, PRINTED_STEPS, PRINTED_EPOCH, PRINTED_LOSS};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const double want[] = {rows[i].step, rows[i].steps, rows[i].epoch, rows[i].loss};
        char text[TEXT_MAX];
        struct printed_progress p;
        snprintf(text, sizeof(text), "%s", rows[i].text);
        read_output(&p, text);
        for (size_t f = 0; f < ARRAY_LEN(fields); f++) {
            if (printed_progress_has(&p, fields[f]) ? p.value[fields[f]] != want[f] : !isnan(want[f]))
                fail_msg("%s of '%s' is %g, expected %g", printed_field_name(fields[f]), rows[i].text,
                         p.value[fields[f]], want[f]);
        }
    }
}

/* Any bytes: nothing is read outside of the text. */
static void survives_any_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789/[]()|:=-%.,<> \t\r\b\033\"'{}#stepolrit\xe2\x94\x81\xc3\xa9nanMKG";
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        char text[200];
        struct printed_progress p;
        size_t n = 1 + (size_t)(i % 180);
        for (size_t k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[k] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
        }
        text[n] = '\0';
        read_output(&p, text);
    }
}

static void reads_a_pattern_of_the_user(void **state)
{
    (void)state;
    struct printed_progress p;
    assert_true(progress_pattern_read("it {step}/{steps} ... L={loss}", "12:00 it  7/90 speed 3 L=0.5 done", &p));
    assert_true(p.value[PRINTED_STEP] == 7 && p.value[PRINTED_STEPS] == 90 && p.value[PRINTED_LOSS] == 0.5);
    assert_false(progress_pattern_read("it {step}/{steps}", "it seven", &p));
    assert_true(progress_pattern_read("done {step} left {eta_s}", "done 3 left 1:00:05", &p));
    assert_true(p.value[PRINTED_ETA_S] == 3605);
}

static void refuses_a_wrong_pattern(void **state)
{
    (void)state;
    static const char *const wrong[] = {"it {stop}", "it {step", "loss {loss}", ""};
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_int_equal(progress_pattern_check(wrong[i], &err), -1);
    assert_int_equal(progress_pattern_check("it {step}/{steps}", &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_lines_of_real_programs), cmocka_unit_test(reads_other_shapes),
        cmocka_unit_test(survives_any_bytes),           cmocka_unit_test(reads_a_pattern_of_the_user),
        cmocka_unit_test(refuses_a_wrong_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
