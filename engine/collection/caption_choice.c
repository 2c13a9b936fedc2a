/* SPDX-License-Identifier: Apache-2.0 */
/* caption_choice.c - see caption_choice.h */
#include "engine/collection/caption_choice.h"

#include <math.h>

#include "kernels/rng.h"

static double weight(const struct caption_rule *rule, double score)
{
    const double coldest = 0.01;
    if (!(score >= rule->score_min))
        return 0;
    return pow(score, 1 / (rule->temperature > coldest ? rule->temperature : coldest));
}

/* Their reader divides by the sum before it draws, which rounds. */
static double weight_sum(const struct caption_rule *rule, const struct caption_score *scores, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight(rule, scores[i].score);
    return isfinite(sum) && sum > 0 ? sum : 0;
}

void caption_choice_weights(double *p, const struct caption_rule *rule, const struct caption_score *scores, int n)
{
    const double sum = weight_sum(rule, scores, n);
    for (int i = 0; i < n; i++)
        p[i] = sum > 0 ? weight(rule, scores[i].score) / sum : 0;
}

int caption_choice_best(const struct caption_score *scores, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (scores[i].score > (best < 0 ? -INFINITY : scores[best].score))
            best = i;
    return best;
}

int caption_choice_at(const struct caption_rule *rule, const struct caption_score *scores, int n, double u)
{
    const double sum = weight_sum(rule, scores, n);
    double total = 0, passed = 0;
    int last = -1;
    for (int i = 0; sum > 0 && i < n; i++)
        total += weight(rule, scores[i].score) / sum;
    for (int i = 0; sum > 0 && i < n; i++) {
        if (!(scores[i].score >= rule->score_min))
            continue;
        last = i;
        passed += weight(rule, scores[i].score) / sum;
        if (passed > u * total)
            return i;
    }
    return last >= 0 ? last : caption_choice_best(scores, n);
}

int caption_choice_draw(const struct caption_rule *rule, const struct caption_score *scores, int n, uint64_t seed,
                        uint32_t epoch, uint64_t sample)
{
    const struct rng r = rng_make(seed, epoch, sample, RNG_CAPTION);
    return caption_choice_at(rule, scores, n, rng_uniform_at(&r, 0));
}
