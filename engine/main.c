/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl-train: a table of subcommands */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cli/train_cmd.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_memory.h"
#include "engine/base/roff.h"
#include "kernels/processor.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments, *help;
} commands[] = {
    {"train", train_cmd_train, "--spec FILE [--backend auto|cpu|cuda]", "run a job spec"},
    {"sample", train_cmd_sample, "--dir DIR|--checkpoint DIR --out PNG [--captions \"a;b\"] [--score]|--weights PATH --prompt "
     "TEXT --out PNG [--size 1024] [--lora FILE]", "draw pictures from a checkpoint, or from released weights"},
    {"selftest", train_cmd_selftest, "--weights PATH [--null FILE.pth] [--picture FILE [--caption TEXT]] [--size 256]",
     "check released weights on this machine: text encoder, autoencoder, one step of the transformer"},
    {"plan", train_cmd_plan, "--spec FILE [--json] [--gpu-memory 80,15:fp32] [--must-fit]",
     "predict a run's memory and steps, on GPUs with these GiB"},
    {"export", train_cmd_export,
     "--dir DIR|--checkpoint DIR --out DIR [--format diffusers|authors|safetensors] [--ema] [--lora|--merged [--with "
     "FILE[:STRENGTH],...]]", "write a checkpoint's weights in a format that other programs load"},
    {"verify-data", train_cmd_verify_data, "--spec FILE [--dir DIR] [--json]",
     "check all data, and the samples of a run"},
    {"verify-resume", train_cmd_verify_resume, "--dir DIR [--ranks 1,4] [--steps N] [--json]",
     "repeat a run's last steps with other numbers of ranks"},
    {"bench", train_cmd_bench, "--config FILE [--case NAME]|--spec FILE [--steps N] [--backend cpu] [--profile] [--json]",
     "time a training step"},
    {"peers", train_cmd_peers, "--gpus UUID,UUID", "test copies between two GPUs"},
    {"sum", train_cmd_sum, "--gpus UUID,UUID [--deadline-ms N]",
     "test a sum of two ranks on two GPUs with NCCL"},
    {"inspect", train_cmd_inspect, "[--names] [--part FOLDER] PATH",
     "describe a .pth or .safetensors file, or a model folder"},
    {"encode", train_cmd_encode,
     "--encoder PATH [--chi FILE] [--rows N] [--style authors|diffusers] [--no-prefix] [--out FILE] [--json]",
     "encode each line of standard input with Gemma, as in training"},
    {"tokenize", train_cmd_tokenize, "--tokenizer PATH [--pieces]",
     "print the token ids of each line of standard input"},
    {"vae", train_cmd_vae, "encode|decode --weights PATH --in FILE --out FILE [--size N] | bench [--model dcae|sdxl]",
     "encode a picture to a latent, decode it, or time both"},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int help(FILE *to)
{
    fprintf(to, "jobctl-train %s: the engine of jobctl, one process per rank\n\n", JOBCTL_VERSION);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  jobctl-train %-7s %s\n%*s%s\n", commands[i].name, commands[i].arguments, 23, "",
                commands[i].help);
    return to == stdout ? EXIT_DONE : EXIT_CONFIG;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help_of(int command)
{
    printf("jobctl-train %s %s\n    %s\n", commands[command].name, commands[command].arguments, commands[command].help);
    return EXIT_DONE;
}

/* jobctl-train(1), for `jobctl help man jobctl-train`. */
static int manual(void)
{
    char usage[256];
    roff_page(stdout, "jobctl-train", "1", JOBCTL_DATE, "jobctl " JOBCTL_VERSION, "the engine of jobctl");
    roff_section(stdout, "SYNOPSIS");
    roff_text(stdout, "jobctl-train COMMAND [options] [arguments]");
    roff_section(stdout, "DESCRIPTION");
    roff_text(stdout, "Trains diffusion transformers and draws pictures with them. An agent starts one process per "
              "rank of a job with train:; the other commands are for users.");
    roff_section(stdout, "COMMANDS");
    for (int i = 0; i < COMMANDS; i++) {
        snprintf(usage, sizeof(usage), "%s %s", commands[i].name, commands[i].arguments);
        roff_term(stdout, usage, commands[i].help);
    }
    roff_section(stdout, "SEE ALSO");
    roff_reference(stdout, "jobctl", "1", 0);
    roff_reference(stdout, "jobctl.yaml", "5", 1);
    return EXIT_DONE;
}

/* "jobctl-train 0.2.0"; with -v also the processor and its kernels. */
static int version(bool verbose)
{
    printf("jobctl-train %s\n", JOBCTL_VERSION);
    if (verbose)
        printf("processor: %s; kernels: %s\n", processor_model(), kern_cpu()->name);
    return EXIT_DONE;
}

/* Refuses a kernel table that was requested and does not run here, instead of using another one. */
static int check_processor(void)
{
    char why[PROCESSOR_WHY];
    if (processor_choose(getenv("JOBCTL_CPU"), why) >= 0)
        return EXIT_DONE;
    fprintf(stderr, "jobctl-train: %s\n", why);
    return EXIT_CONFIG;
}

int main(int argc, char **argv)
{
    json_memory_open("jobctl-train", EXIT_HOST_MEMORY);
    if (argc < 2)
        return help(stderr);
    if (strcmp(argv[1], "help") == 0 || is_help(argv[1]))
        return argc > 2 && strcmp(argv[2], "man") == 0 ? manual() : help(stdout);
    if (check_processor() != EXIT_DONE)
        return EXIT_CONFIG;
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0)
        return version(argc > 2 && strcmp(argv[2], "-v") == 0);
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return argc > 2 && is_help(argv[2]) ? help_of(i) : commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "jobctl-train: unknown command '%s'; jobctl-train help lists the commands\n", argv[1]);
    return EXIT_CONFIG;
}
