/* SPDX-License-Identifier: Apache-2.0 */
/* caption_choice.h - which of a sample's captions an epoch trains on, by their CLIP scores
 *
 * Pure: no clock, no I/O.
 * The rule of Sana's authors (diffusion/data/datasets/sana_data.py, weighted_sample_clipscore).  Candidates are the
 * scored captions with score >= score_min, in the order of the score files; each is drawn with a probability
 * proportional to score^(1 / max(temperature, 0.01)).  Without candidates the best-scored caption is taken, and
 * without any score the caption of kind "prompt".
 * Two differences: if the weights have no finite sum above 0, the best-scored caption is taken, where their reader
 * fails; they draw with the process's global generator, but here the draw is a function of (seed, epoch, sample), so
 * ranks, restarts and the number of workers do not matter.
 */
#ifndef ENGINE_COLLECTION_CAPTION_CHOICE_H
#define ENGINE_COLLECTION_CAPTION_CHOICE_H

#include <stdint.h>

struct caption_rule {
    double score_min;   /* the authors' clip_thr: 25 in their recipes, 0 by default */
    double temperature; /* the authors' clip_thr_temperature: 0.1 in their recipes, 1 by default */
};

/* One score; several may belong to one caption. */
struct caption_score {
    int    caption; /* index into the sample's captions */
    double score;
};

/* Index into `scores`, or -1: no scores, so take the prompt. `u` is uniform in [0, 1): the first candidate whose
 * cumulated weight is above u times the sum of all. */
int caption_choice_at(const struct caption_rule *rule, const struct caption_score *scores, int n, double u);

/* The same with u = number of the stream (seed, epoch, sample, RNG_CAPTION). */
int caption_choice_draw(const struct caption_rule *rule, const struct caption_score *scores, int n, uint64_t seed,
                        uint32_t epoch, uint64_t sample);

/* Index of the best score, the first of equal ones; -1: there is none. */
int caption_choice_best(const struct caption_score *scores, int n);

/* The probability of each score into p[n]; 0 below the threshold. Sum 1, or 0 without candidates. */
void caption_choice_weights(double *p, const struct caption_rule *rule, const struct caption_score *scores, int n);

#endif
