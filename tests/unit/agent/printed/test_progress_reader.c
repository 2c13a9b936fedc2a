/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress_reader.c - whole outputs: nested bars, epochs, records next to bars, pieces of any size */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "agent/printed/progress_reader.h"

/* Feeds the text in pieces of `piece` bytes. */
static struct progress_seen read_in_pieces(const char *text, const char *pattern, size_t piece)
{
    struct progress_reader r;
    struct progress_seen seen = {.step = -2};
    progress_reader_init(&r, pattern);
    for (size_t at = 0, n = strlen(text); at < n; at += piece) {
        progress_reader_feed(&r, text + at, n - at < piece ? n - at : piece);
        if (piece > 1)
            progress_reader_take(&r, &seen);
    }
    progress_reader_take(&r, &seen);
    return seen;
}

static struct progress_seen read_text(const char *text)
{
    const struct progress_seen whole = read_in_pieces(text, NULL, 4096), bytes = read_in_pieces(text, NULL, 1);
    assert_int_equal(whole.step, bytes.step);
    assert_int_equal(whole.steps, bytes.steps);
    return whole;
}

static void joins_a_bar_and_a_record(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("***** Running training *****\n  Total optimization steps = 60\n"
                                             "\r  2%|#    | 1/60 [00:01<00:59,  1.00it/s]"
                                             "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.09}\n"
                                             "\r  3%|#    | 2/60 [00:02<00:58,  2.00it/s]");
    assert_int_equal(s.step, 2);
    assert_int_equal(s.steps, 60);
    assert_true(s.loss == 2.5 && s.lr == 1e-5 && s.step_ms == 500 && s.eta_s == 58);
}

static void leaves_out_the_bar_of_an_evaluation(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("\r 50%|##  | 50/100 [00:10<00:10, 5.00it/s]\n"
                                             "\r 67%|##  | 2/3 [00:01<00:00,  1.68it/s]\n"
                                             "Evaluating: 100%|####| 207/207 [00:53<00:00,  3.92it/s]\n");
    assert_int_equal(s.step, 50);
    assert_int_equal(s.steps, 100);
}

static void the_time_left_of_an_epoch_is_not_that_of_the_run(void **state)
{
    (void)state;
    const struct progress_seen s = read_text(
        "\rEpoch 0: 100%|####| 100/100 [00:10<00:00, 10.0it/s, v_num=0, train_loss=0.5]\n"
        "\rEpoch 1:  40%|##  | 40/100 [00:04<00:06, 10.0it/s, v_num=0, train_loss=0.3]");
    assert_int_equal(s.step, 140);
    assert_int_equal(s.steps, -1);
    assert_true(isnan(s.eta_s) && s.step_ms == 100 && s.loss == 0.3);
}

static void counts_over_epochs(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("Epoch 1/3\n10/10 [=====] - 1s 100ms/step - loss: 0.9\n"
                                             "Epoch 2/3\n 4/10 [==>..] - ETA: 0s - loss: 0.7\n");
    assert_int_equal(s.step, 14);
    assert_int_equal(s.steps, 30);
    assert_true(s.epoch == 2 && s.epochs == 3 && s.loss == 0.7);
}

static void counts_bars_that_begin_anew(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("\r 50%|##| 5/10 [00:05<00:05,  1.00it/s]\r100%|##| 10/10 [00:10<00:00,  1.00it/s]\n"
                                             "\r 30%|#| 3/10 [00:03<00:07,  1.00it/s, loss=0.4]");
    assert_int_equal(s.step, 13);
}

static void counts_epochs_from_zero(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("Epoch 0: 100%|##| 40/40 [00:31<00:00,  1.27it/s, v_num=1, train_loss=2.0]\n"
                                             "Validation DataLoader 0:  40%|#| 4/10 [00:02<00:03, 18.91it/s]\n"
                                             "Epoch 1:  25%|##| 10/40 [00:08<00:23,  1.27it/s, v_num=1, train_loss=1.5]");
    assert_int_equal(s.step, 50);
    assert_true(s.epoch == 1 && s.loss == 1.5);
}

static void reads_the_outer_bar_of_epochs(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("\repochs:   0%|    | 0/2 [00:00<?, ?it/s]\n\rbatch:  33%|##  | 1/3 [00:00<00:00, 24.87it/s]\033[A\r"
                                             "epochs:  50%|##  | 1/2 [00:00<00:00,  8.13it/s]\n\rbatch:  67%|##  | 2/3 [00:00<00:00, 24.87it/s]");
    assert_true(s.epoch == 1 && s.epochs == 2);
    assert_int_equal(s.step, 5);
    assert_int_equal(s.steps, 6);
}

static void prefers_the_first_rank(void **state)
{
    (void)state;
    const struct progress_seen s = read_text("[rank0]: step 120/5000 loss 2.934\n[rank1]: step 121/5000 loss 2.918\n");
    assert_int_equal(s.step, 120);
    assert_true(s.loss == 2.934);
}

static void tells_nothing_of_other_output(void **state)
{
    (void)state;
    assert_int_equal(read_text("model.safetensors:  45%|##  | 6.3G/14.0G [01:02<01:10, 110MB/s]\nval loss 0.5\n").step,
                     -2);
}

static void reads_by_the_pattern_alone(void **state)
{
    (void)state;
    const struct progress_seen s = read_in_pieces("step 9/10 loss 1\ntick 3 of 7\n", "tick {step} of {steps}", 4096);
    assert_int_equal(s.step, 3);
    assert_int_equal(s.steps, 7);
    assert_true(isnan(s.loss));
}

/* A line without an end is not kept, and what follows it is read. */
static void skips_a_line_without_end(void **state)
{
    (void)state;
    static char text[3 * PROGRESS_READER_LINE];
    memset(text, 'x', sizeof(text) - 1);
    strcpy(text + sizeof(text) - 32, "\nstep 4/9 loss 0.5\n");
    assert_int_equal(read_text(text).step, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_a_bar_and_a_record),    cmocka_unit_test(leaves_out_the_bar_of_an_evaluation),
        cmocka_unit_test(the_time_left_of_an_epoch_is_not_that_of_the_run),
        cmocka_unit_test(counts_over_epochs),          cmocka_unit_test(counts_bars_that_begin_anew),
        cmocka_unit_test(counts_epochs_from_zero),     cmocka_unit_test(reads_the_outer_bar_of_epochs),
        cmocka_unit_test(prefers_the_first_rank),      cmocka_unit_test(tells_nothing_of_other_output),
        cmocka_unit_test(reads_by_the_pattern_alone),  cmocka_unit_test(skips_a_line_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
