/* SPDX-License-Identifier: Apache-2.0 */
/* test_step_sync.c - 1 to 8 ranks agree on each step; a diverged or late rank is named */
#include "engine/dist/step_sync.h"

#include "engine/data/batch_plan.h"
#include "tests/unit/engine/dist/ranks_fixture.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { PATIENCE = 60 * SECOND, STEPS = 200, NEVER = 1 << 30 };

/* --- records ------------------------------------------------------------------------------- */

static const struct step_sync_words usual = {.hash = {17, 4}, .step = 41207, .height = 32,
                                             .width = 32,
                                             .stage = 3, .least = 9};

static void fill(struct step_sync_words *all, int world)
{
    for (int r = 0; r < world; r++)
        all[r] = usual;
}

static void one_command_reaches_all_ranks(void **state)
{
    (void)state;
    for (int world = 1; world <= RANKS; world++)
        for (int who = 0; who < world; who++) {
            struct step_sync_words all[RANKS];
            fill(all, world);
            struct step_sync_orders o = step_sync_orders(all, world);
            assert_true(o.asked == CMD_NONE && !o.due && o.stage == 3);
            all[who].asked = CMD_CHECKPOINT;
            all[who].stage = 1;
            all[who].due = true; /* the ranks' clocks differ: that of rank 0 counts */
            o = step_sync_orders(all, world);
            assert_true(o.asked == CMD_CHECKPOINT && o.due == (who == 0) && o.stage == 1);
            all[(who + 3) % world].asked = CMD_STOP;
            assert_int_equal(step_sync_orders(all, world).asked, CMD_STOP);
            all[who].least = -2;
            assert_int_equal(step_sync_least(all, world), -2);
        }
}

static void a_sum_is_in_the_order_of_ranks(void **state)
{
    (void)state;
    struct step_sync_words all[RANKS] = {{.value = 1}, {.value = 1e16}, {.value = -1e16}};
    assert_true(step_sync_sum(all, 3) == 0); /* the 1 is lost in 1e16 */
    assert_true(step_sync_sum(all, 1) == 1);
}

/* --- the hash of a step -------------------------------------------------------------------- */

static const struct batch_slot three[] = {{7, 0}, {3, 0}, {9, 1}}, other_sample[] = {{7, 0}, {4, 0}, {9, 1}},
                               other_order[] = {{3, 0}, {7, 0}, {9, 1}}, other_epoch[] = {{7, 0}, {3, 0}, {9, 2}};

/* Any change of the input changes both halves of the hash. */
static void the_hash_covers_every_input_of_a_step(void **state)
{
    (void)state;
    enum { CHANGES = 9 };
    const struct step_sync_step usual_step = {.step = 5, .height = 26, .width = 36, .lr = 1e-4,
                                              .slots = three,
                                              .samples = 3, .job = "xxh3:ab", .data = "xxh3:cd"};
    const struct step_sync_words w = step_sync_words(&usual_step), again = step_sync_words(&usual_step);
    assert_memory_equal(&w, &again, sizeof(w));
    assert_true(w.step == 5 && w.height == 26 && w.width == 36 && w.asked == CMD_NONE && !w.due);
    struct step_sync_step s[CHANGES];
    for (int i = 0; i < CHANGES; i++)
        s[i] = usual_step;
    s[0].step = 6;
    s[1].height = 36;
    s[2].width = 26;
    s[3].lr = 1.0000000001e-4;
    s[4].slots = other_sample;
    s[5].slots = other_order;
    s[6].slots = other_epoch;
    s[7].job = "xxh3:ac";
    s[8].data = "xxh3:ce";
    for (int i = 0; i < CHANGES; i++) {
        const struct step_sync_words other = step_sync_words(&s[i]);
        if (other.hash[0] == w.hash[0] || other.hash[1] == w.hash[1])
            fail_msg("change %d is not detected", i);
    }
}

/* --- desync ------------------------------------------------------------------------------- */

static const struct {
    const char            *what;
    struct step_sync_words words; /* about the diverged rank */
    const char            *is, *others_are, *other_is; /* "rank N" is inserted between */
} apart[] = {
    {"another bucket", {.hash = {1, 1}, .step = 41207, .height = 26, .width = 36},
     " is at step 41207 bucket 26x36, ", "the others 32x32", " 32x32"},
    {"a step ahead", {.hash = {2, 2}, .step = 41208, .height = 32, .width = 32},
     " is at step 41208 bucket 32x32, ", "the others at step 41207", " at step 41207"},
    {"other samples", {.hash = {18, 4}, .step = 41207, .height = 32, .width = 32},
     " is at step 41207 bucket 32x32 like ", "the others, with different samples", ", with different samples"},
    {"the other half of the hash", {.hash = {17, 5}, .step = 41207, .height = 32, .width = 32},
     " is at step 41207 bucket 32x32 like ", "the others, with different samples", ", with different samples"},
};

static void a_diverged_rank_is_named(void **state)
{
    (void)state;
    for (int world = 3; world <= RANKS; world++)
        for (int odd = 0; odd < world; odd++)
            for (size_t i = 0; i < ARRAY_LEN(apart); i++) {
                struct step_sync_words all[RANKS];
                struct err err = {0};
                char want[160];
                fill(all, world);
                assert_int_equal(step_sync_check(all, world, "samples", &err), 0);
                all[odd] = apart[i].words;
                assert_int_equal(step_sync_check(all, world, "samples", &err), -1);
                snprintf(want, sizeof(want), "desync: rank %d%s%s", odd, apart[i].is, apart[i].others_are);
                assert_string_equal(err.text, want);
                assert_int_equal(err.code, ERR_CONFLICT);
            }
}

static void of_two_the_second_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(apart); i++) {
        struct step_sync_words all[2] = {usual, apart[i].words};
        struct err err = {0};
        char want[160];
        assert_int_equal(step_sync_check(all, 2, "samples", &err), -1);
        snprintf(want, sizeof(want), "desync: rank 1%srank 0%s", apart[i].is, apart[i].other_is);
        assert_string_equal(err.text, want);
    }
}

/* Half and half: the sentence compares the rank with one of the other half. */
static void diverged_halves_are_compared(void **state)
{
    (void)state;
    struct step_sync_words all[4] = {apart[1].words, usual, usual, apart[1].words};
    struct err err = {0};
    assert_int_equal(step_sync_check(all, 4, "samples", &err), -1);
    assert_string_equal(err.text, "desync: rank 3 is at step 41208 bucket 32x32, the others at step 41207");
}

/* --- ranks that wait for each other ------------------------------------------------------- */

static int who;          /* has trouble */
static int64_t trouble;  /* ms after the start */

/* What the others report, at once or at the deadline. */
static void others_end(int world, int64_t after, const char *sentence)
{
    for (int r = 0; r < world; r++) {
        const int64_t took = ranks[r].ended - BEGIN;
        if (r == who)
            continue;
        if (ranks[r].rc != -1 || strncmp(ranks[r].err.text, sentence, strlen(sentence)) != 0 ||
            took < after || took > after + SLEEP_MS)
            fail_msg("rank %d of %d, trouble with %d: %d after %lld ms: %s", r, world, who, ranks[r].rc,
                     (long long)took, ranks[r].err.text);
    }
}

static int come_late(struct dist *d, int rank, struct err *err)
{
    struct step_sync_words all[RANKS] = {{.step = 0}};
    all[rank] = usual;
    all[rank].value = rank;
    if (rank == who)
        spend(rank, trouble);
    if (step_sync_exchange(d, all, PATIENCE, err) < 0)
        return -1;
    for (int r = 0; r < dist_world(d); r++)
        if (all[r].value != r || all[r].step != usual.step)
            return err_set(err, ERR_BUG, "rank %d does not have the record of rank %d", rank, r);
    return 0;
}

static void a_late_rank_is_awaited_until_the_deadline(void **state)
{
    (void)state;
    for (int world = 1; world <= RANKS; world++)
        for (who = 0; who < world; who++) {
            trouble = PATIENCE - SECOND;
            run_ranks(world, come_late);
            for (int r = 0; r < world; r++)
                assert_int_equal(ranks[r].rc, 0);
            trouble = HOUR;
            run_ranks(world, come_late);
            char sentence[80];
            snprintf(sentence, sizeof(sentence), "rank %d is stuck or far behind: nothing arrived from it", who);
            others_end(world, PATIENCE, sentence);
            if (world > 1) { /* when it comes, it gets the same error */
                assert_int_equal(ranks[who].rc, -1);
                assert_memory_equal(ranks[who].err.text, sentence, strlen(sentence));
            }
        }
}

static int give_up(struct dist *d, int rank, struct err *err)
{
    struct step_sync_words all[RANKS] = {{.step = 0}};
    if (rank == who) {
        spend(rank, trouble);
        dist_abort(d);
        spend(rank, HOUR); /* as if stuck elsewhere */
    }
    return step_sync_exchange(d, all, PATIENCE, err);
}

static int leave(struct dist *d, int rank, struct err *err)
{
    struct step_sync_words all[RANKS] = {{.step = 0}};
    if (rank != who)
        return step_sync_exchange(d, all, PATIENCE, err);
    spend(rank, trouble);
    return 0;
}

static void a_rank_that_aborts_or_leaves_ends_all(void **state)
{
    (void)state;
    char sentence[80];
    trouble = 7 * SECOND;
    for (int world = 2; world <= RANKS; world++)
        for (who = 0; who < world; who++) {
            run_ranks(world, give_up);
            snprintf(sentence, sizeof(sentence), "rank %d aborted the job", who);
            others_end(world, trouble, sentence);
            run_ranks(world, leave);
            snprintf(sentence, sizeof(sentence), "rank %d has ended", who);
            others_end(world, trouble, sentence);
        }
}

/* --- a run -------------------------------------------------------------------------------- */

static struct {
    int stopped;      /* at this step */
    int saves, saved; /* number of ranks, sum of their steps */
} ends[RANKS];

static struct {
    int rank, at; /* the step before which this rank is asked to stop; NEVER */
    int apart;    /* the step from which it takes other samples */
} plan;

/* Ranks of different speeds, a checkpoint every 90 s by the clock of rank 0, until one rank is
 * asked to stop. */
static int take_steps(struct dist *d, int rank, struct err *err)
{
    const int world = dist_world(d);
    int64_t saved_ms = now;
    bool asked = false;
    memset(&ends[rank], 0, sizeof(ends[rank]));
    for (int step = 0; step < STEPS; step++) {
        struct step_sync_words all[RANKS] = {{.step = 0}};
        asked |= rank == plan.rank && step >= plan.at;
        all[rank] = (struct step_sync_words){.hash = {(uint64_t)step}, .step = step, .height = 32,
                                             .width = 32,
                                             .asked = asked ? CMD_STOP : CMD_NONE,
                                             .due = now - saved_ms >= 90 * SECOND};
        all[rank].hash[1] = rank == plan.rank && step >= plan.apart;
        if (step_sync_exchange(d, all, PATIENCE, err) < 0 ||
            step_sync_check(all, world, "samples", err) < 0)
            return -1;
        const struct step_sync_orders o = step_sync_orders(all, world);
        ends[rank].stopped = step;
        if (o.due || o.asked == CMD_STOP) {
            ends[rank].saves++;
            ends[rank].saved += step;
            saved_ms = now;
        }
        if (o.asked == CMD_STOP)
            return 0;
        spend(rank, 700 + (step * 7 + rank * 13) % 11 * 130);
    }
    return 0;
}

static void all_save_and_stop_at_the_same_steps(void **state)
{
    (void)state;
    for (int world = 1; world <= RANKS; world++) {
        plan.rank = world / 2;
        plan.at = STEPS - 13 * world;
        plan.apart = NEVER;
        run_ranks(world, take_steps);
        for (int r = 0; r < world; r++) {
            if (ranks[r].rc < 0)
                fail_msg("rank %d of %d: %s", r, world, ranks[r].err.text);
            assert_int_equal(ends[r].stopped, plan.at);
            assert_true(ends[r].saves > 1);
            assert_memory_equal(&ends[r], &ends[0], sizeof(ends[0]));
        }
    }
}

static void a_planted_desync_is_found_within_its_step(void **state)
{
    (void)state;
    for (int world = 2; world <= RANKS; world++) {
        plan.rank = world - 1;
        plan.at = NEVER;
        plan.apart = 57;
        run_ranks(world, take_steps);
        for (int r = 0; r < world; r++) {
            char want[80];
            snprintf(want, sizeof(want), "desync: rank %d is at step 57 bucket 32x32 like ", plan.rank);
            assert_int_equal(ranks[r].rc, -1);
            assert_memory_equal(ranks[r].err.text, want, strlen(want));
            assert_int_equal(ends[r].stopped, 56); /* the last step that was taken */
        }
    }
}

/* --- time limits ---------------------------------------------------------------------------- */

static void the_limit_of_silence_follows_the_step_time(void **state)
{
    (void)state;
    static const struct {
        struct step_sync_pace pace;
        int64_t               ms;
    } rows[] = {
        {{0}, 10 * MINUTE}, /* the first step */
        {{.hang_first_s = 20}, 20 * SECOND},
        {{.hang_step_s = 3}, 10 * MINUTE},
        {{.step_s = 0.01}, MINUTE},
        {{.step_s = 6}, MINUTE},
        {{.step_s = 30}, 5 * MINUTE},
        {{.step_s = 30, .hang_step_s = 3}, 3 * SECOND},
        {{.step_s = 0.01, .hang_first_s = 20}, MINUTE},
        {{.step_s = 30, .watched = true}, 10 * MINUTE},
        {{.step_s = 30, .hang_step_s = 3, .watched = true}, 6 * SECOND},
        {{.watched = true}, 20 * MINUTE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(step_sync_patience_ms(&rows[i].pace), rows[i].ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_command_reaches_all_ranks),
        cmocka_unit_test(a_sum_is_in_the_order_of_ranks),
        cmocka_unit_test(the_hash_covers_every_input_of_a_step),
        cmocka_unit_test(a_diverged_rank_is_named),
        cmocka_unit_test(of_two_the_second_is_named),
        cmocka_unit_test(diverged_halves_are_compared),
        cmocka_unit_test(a_late_rank_is_awaited_until_the_deadline),
        cmocka_unit_test(a_rank_that_aborts_or_leaves_ends_all),
        cmocka_unit_test(all_save_and_stop_at_the_same_steps),
        cmocka_unit_test(a_planted_desync_is_found_within_its_step),
        cmocka_unit_test(the_limit_of_silence_follows_the_step_time),
    };
    return cmocka_run_group_tests_name("step_sync", tests, NULL, NULL);
}
