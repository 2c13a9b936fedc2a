/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_command.c - which program a command certainly starts, and which launcher it contains */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "controller/spec/run_command.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *text, *program; /* "": not certain */
} programs[] = {
    {"python train.py", "python"},
    {"  python3.11 train.py --lr=1e-4\n", "python3.11"},
    {"train", "train"},
    {"python train.py 2>&1 | tee log.txt", "python"},
    {"python train.py &> log", "python"},
    {"python 'a;b' \"c && d\" e\\;f", "python"},
    {"g++ x.c", "g++"},
    {"CUDA_VISIBLE_DEVICES=0 OMP_NUM_THREADS=4 python train.py", "python"},
    {"python train.py > $HOME/log", "python"},
    {"nohup python train.py", "nohup"},
    /* paths, expansions */
    {"./train", ""}, {"/usr/bin/python train.py", ""}, {"$PYTHON train.py", ""}, {"~/bin/x", ""}, {"bin/*", ""},
    {"\"python\" x", ""}, {"py\\thon x", ""}, {"X=$(which python) foo", ""}, {"`which python` x", ""},
    {"PATH=/opt/bin:/bin train", ""}, {"A=\"b c\" train", ""}, {"A+=x train", ""}, {"A=$B train", ""},
    {"BASH_ENV=x train", ""}, {"A=1", ""}, {"A=1 B=2", ""},
    /* built in, reserved, functions */
    {"source venv/bin/activate", ""}, {". venv/bin/activate", ""}, {"exec python x", ""}, {"cd /tmp", ""},
    {"time python x", ""}, {"! python x", ""}, {"[ -e x ]", ""}, {"[[ -e x ]]", ""}, {"if true", ""},
    {"true", ""}, {"eval x", ""}, {"trap x EXIT", ""}, {"train() { python x; }", ""}, {"function f", ""},
    {"module load cuda", ""}, {"for i in 1 2", ""}, {"command python x", ""},
    /* lists and groups */
    {"foo || bar", ""}, {"foo && bar", ""}, {"foo; bar", ""}, {"foo & wait", ""}, {"foo &", ""}, {"(foo)", ""},
    {"{ foo; }", ""}, {"foo ${X:-y}", ""}, {"foo $(bar)", ""}, {"foo <(bar)", ""}, {"foo |& tee x", ""},
    {"foo | | bar", ""}, {"foo |", ""}, {"foo 'x", ""}, {"foo \"x", ""}, {"foo \\", ""},
    /* several lines, nothing, comments, redirections first */
    {"foo\nbar", ""}, {"foo \\\n  --bar", "foo"}, {"A=1 \\\n  foo", ""},
    {"", ""}, {" \n", ""}, {"# foo", ""}, {">log foo", ""}, {"foo>log", ""},
    {"--foo", ""}, {"-x", ""}, {"foo<x", ""}, {"\xc3\xa9tude x", ""},
};

static void test_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        char out[128] = "?";
        const bool found = run_command_program(out, sizeof(out), programs[i].text);
        if (strcmp(out, programs[i].program) != 0 || found != (programs[i].program[0] != '\0'))
            fail_msg("\"%s\" starts \"%s\"", programs[i].text, out);
    }
}

static void test_long(void **state)
{
    (void)state;
    char text[6000], out[128];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_false(run_command_program(out, sizeof(out), text));      /* longer than a line that is read */
    text[200] = '\0';
    assert_false(run_command_program(out, sizeof(out), text));      /* than a word */
    text[100] = '\0';
    assert_true(run_command_program(out, sizeof(out), text));
    assert_int_equal(strlen(out), 100);
    assert_false(run_command_program(out, 100, text));              /* than there is room */
}

static const struct {
    const char *text, *name;
    int64_t     n;
} launchers[] = {
    {"torchrun --nproc_per_node 2 train.py", "torchrun", 2},
    {"torchrun --nproc-per-node=4 train.py", "torchrun", 4},
    {"/opt/venv/bin/torchrun --nnodes 1 --nproc_per_node=gpu train.py", "torchrun", -1},
    {"python -m torch.distributed.run --nproc_per_node=8 x.py", "torch.distributed.run", 8},
    {"python -m torch.distributed.launch --nproc_per_node 8 x.py", "torch.distributed.launch", 8},
    {"accelerate launch --num_processes 2 train.py", "accelerate launch", 2},
    {"source venv/bin/activate\naccelerate launch \\\n  --mixed_precision bf16 \\\n  --num_processes=2 x.py",
     "accelerate launch", 2},
    {"cd x && torchrun --nproc_per_node 2 y.py", "torchrun", 2},
    {"torchrun --nproc_per_node 1 x.py", "torchrun", 1},
    {"torchrun --nproc_per_node $N x.py", "torchrun", 0},
    {"torchrun x.py", "", 0}, {"accelerate launch train.py", "", 0}, {"python train.py --num_processes 2", "", 0},
    {"# torchrun --nproc_per_node 2 x.py\npython x.py", "", 0}, {"torchrun x.py\npython y.py --num_processes 2", "", 0},
    {"torchrun --version; python y.py --num_processes 2", "", 0}, {"accelerate config --num_processes 2", "", 0},
    {"torchrun --nproc_per_node", "", 0}, {"", "", 0}, {"\\", "", 0},
};

static void test_launchers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(launchers); i++) {
        char name[128] = "?";
        const int64_t n = run_command_launcher(name, sizeof(name), launchers[i].text);
        if (n != launchers[i].n || strcmp(name, launchers[i].name) != 0)
            fail_msg("\"%s\" has \"%s\" with %d", launchers[i].text, name, (int)n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_launchers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
