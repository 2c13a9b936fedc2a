/* SPDX-License-Identifier: Apache-2.0 */
/* xid.c - see xid.h */
#include "agent/probe/xid.h"

#include <stddef.h>

static const struct {
    int         number;
    const char *meaning;
} meanings[] = {
    {8, "GPU work timed out"},
    {13, "graphics engine exception, usually a bug in the program"},
    {31, "GPU memory page fault, usually a bug in the program"},
    {43, "GPU work stopped after an error in the program"},
    {45, "GPU work stopped, usually after another error"},
    {46, "the GPU stopped processing"},
    {48, "uncorrectable memory error (double-bit ECC)"},
    {62, "internal microcontroller halted"},
    {63, "a memory row will be remapped at the next reset"},
    {64, "row remapping failed: a bad memory row cannot be replaced"},
    {74, "NVLink error"},
    {79, "the GPU has fallen off the bus"},
    {92, "high rate of correctable memory errors"},
    {94, "contained uncorrectable memory error: one program is affected"},
    {95, "uncontained uncorrectable memory error: any program may be affected"},
    {109, "a context switch timed out"},
    {119, "the GPU system processor (GSP) does not respond"},
    {120, "error of the GPU system processor (GSP)"},
    {136, "link training failed"},
    {140, "unrecovered ECC memory error"},
    {143, "the GPU failed to initialize"},
    {154, "the driver requests a reset, drain or reboot"},
    {158, "fatal timeout of the GPU"},
};

const char *xid_meaning(int number)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].number == number)
            return meanings[i].meaning;
    return "see NVIDIA's list of Xid errors";
}
