/* SPDX-License-Identifier: Apache-2.0 */
/* xid.c - see xid.h */
#include "agent/probe/xid.h"

#include <stddef.h>

static const struct {
    int         number;
    const char *meaning;
} meanings[] = {
    {8, "a program's work did not end in time"},
    {13, "a program did what the GPU cannot, mostly a bug in it"},
    {31, "a program read or wrote memory that it does not have, mostly a bug in it"},
    {43, "a program's work was ended after an error of its own"},
    {45, "a program's work was ended, mostly in the wake of another error"},
    {46, "it stopped working in the middle of a task"},
    {48, "an uncorrectable error of its memory (double-bit ECC)"},
    {62, "its own controller has stopped"},
    {63, "a row of its memory is replaced at the next reset"},
    {64, "a bad row of its memory cannot be replaced"},
    {74, "an error of an NVLink"},
    {79, "it has fallen off the bus"},
    {92, "many correctable errors of its memory"},
    {94, "an uncorrectable error of its memory, within one program"},
    {95, "an uncorrectable error of its memory, of which any program may have read"},
    {119, "its system processor does not answer"},
    {120, "an error of its system processor"},
    {140, "an uncorrectable error of its memory"},
    {154, "the driver wants it reset, drained or restarted"},
};

const char *xid_meaning(int number)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].number == number)
            return meanings[i].meaning;
    return "see NVIDIA's list of Xid errors";
}
