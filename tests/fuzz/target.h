/* SPDX-License-Identifier: Apache-2.0 */
/* target.h - the interface of a fuzz target
 *
 * tests/fuzz/fuzz_NOUN.c defines the function below: it feeds outside bytes to
 * one parser and aborts when a promise of its header is broken.  `make fuzz`
 * links it with libFuzzer, `make corpus` with replay.c, which runs it over
 * tests/fuzz/corpus/NOUN/ with any compiler.
 */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise, checked; the fuzzer keeps the input that breaks it. */
#define PROMISE(claim)                                                             \
    do {                                                                           \
        if (!(claim)) {                                                            \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #claim); \
            abort();                                                               \
        }                                                                          \
    } while (0)

#endif
