/* SPDX-License-Identifier: Apache-2.0 */
/* command_programs.c - see command_programs.h */
#include "agent/ranks/command_programs.h"

#include "agent/os/process.h"
#include "agent/os/process_tree.h"
#include "agent/ranks/main_program.h"

enum { MEMBERS = 1024, NAME = 64 };

int command_programs_list(int64_t root, bool shells, int64_t *out, int most)
{
    static struct process_tree_member all[MEMBERS]; /* one thread */
    static char names[MEMBERS][NAME];
    static const char *rows[MEMBERS];
    const int n = process_tree_members(root, all, MEMBERS);
    for (int i = 0; i < n; i++) {
        process_program(names[i], NAME, all[i].pid);
        rows[i] = names[i];
    }
    return shells ? main_program_shells(all, rows, n, out, most) : main_program_list(all, rows, n, out, most);
}
