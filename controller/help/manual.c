/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c - see manual.h; `jobctl help man | man -l -` shows one */
#include "controller/help/manual.h"

#include <string.h>

#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/help/command_list.h"
#include "controller/help/key_text.h"
#include "controller/spec/config.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/roff.h"

enum { NAME = 64, LINE = 512 };

#define JOBS "A job is named by its id (7), a range (3-5 or 3,5-8), its name (the newest of that name), or last."

const char manual_exit_codes[] =
    "0 success; 1 the job or a check failed; 2 wrong usage, invalid spec, or host not found; 3 no such job, wrong "
    "state, or job cancelled; 4 system error; 65 verify-data found wrong data; 70 bug in jobctl; 93 retry limit "
    "reached, do not requeue; 124 wait --timeout expired; 130 interrupted by Ctrl-C, the job keeps running.";

struct term { const char *name, *text; };

static const struct term environment[] = {
    {"JOBCTL_HOME", "state directory; default $XDG_STATE_HOME/jobctl, else ~/.local/state/jobctl"},
    {"JOBCTL_HOST", "[user@]host: as if -H HOST were given"},
    {"JOBCTL_HOST_PROGRAM", "the path of jobctl on that host, if it is not in one of the usual places"},
    {"JOBCTL_MACHINE_DIR", "lock directory of a shared machine; default /run/jobctl; none: no locks"},
    {"JOBCTL_OUTPUT", "json: print JSON, like --json"},
    {"JOBCTL_CPU", "base, avx2 or avx512: the engine's kernels; default: the widest that the processor supports"},
    {"JOBCTL_SNAPSHOT_MIB", "largest snapshot of a job's code (jobctl help snapshot), in MiB; default 200"},
    {"NO_COLOR", "if set, no colours are printed"},
};

static const struct term files[] = {
    {"~/.config/jobctl/config.yaml", "settings for all jobs: jobctl-config(5)"},
    {"~/.local/state/jobctl", "this user's jobs, logs and checkpoints"},
};

static void terms(FILE *f, const char *title, const struct term *rows, size_t n)
{
    roff_section(f, title);
    for (size_t i = 0; i < n; i++)
        roff_term(f, rows[i].name, rows[i].text);
}

static void page(const struct call *call, const char *name, const char *section, const char *summary)
{
    roff_page(call->out.file, name, section, call->build->date, "jobctl " JOBCTL_VERSION, summary);
}

static bool takes_jobs(const struct command *c)
{
    return c->args == ARGS_JOB || c->args == ARGS_JOB_COMMAND || c->args == ARGS_JOBS ||
           c->args == ARGS_JOBS_OR_NONE || c->args == ARGS_FILE_OR_JOB;
}

/* ---- jobctl-COMMAND(1) ---- */

static void print_options(FILE *f, const struct option_row *o)
{
    char term[NAME];
    roff_section(f, "OPTIONS");
    for (; o && o->name; o++) {
        snprintf(term, sizeof(term), "%s%.1s%s--%s%s%s", o->letter ? "-" : "", &o->letter, o->letter ? ", " : "",
                 o->name, o->value ? " " : "", o->value ? o->value : "");
        roff_term(f, term, o->help);
    }
    roff_term(f, "-h, --help", "print the usage and the options");
}

static void print_aliases(FILE *f, const char *aliases)
{
    char line[LINE];
    if (!aliases)
        return;
    snprintf(line, sizeof(line), "Other names of this command: %s.", aliases);
    for (char *p = line; *p; p++)
        if (*p == '|')
            *p = ',';
    roff_text(f, "\n");
    roff_text(f, line);
}

static void print_command(struct call *call, const struct command *c)
{
    FILE *f = call->out.file;
    char name[NAME], usage[LINE] = "jobctl ";
    snprintf(name, sizeof(name), "jobctl-%s", c->name);
    page(call, name, "1", c->summary);
    roff_section(f, "SYNOPSIS");
    command_usage(usage + 7, sizeof(usage) - 7, c);
    roff_text(f, usage);
    roff_section(f, "DESCRIPTION");
    roff_text(f, c->help ? c->help : c->summary);
    print_aliases(f, c->aliases);
    if (takes_jobs(c)) {
        roff_text(f, "\n");
        roff_text(f, JOBS);
    }
    print_options(f, c->options);
    roff_section(f, "EXIT STATUS");
    roff_text(f, manual_exit_codes);
    roff_section(f, "SEE ALSO");
    roff_reference(f, "jobctl", "1", false);
    roff_reference(f, "jobctl.yaml", "5", true);
}

/* ---- jobctl(1) ---- */

static void print_jobctl(struct call *call)
{
    FILE *f = call->out.file;
    page(call, "jobctl", "1", "train diffusion transformers, and run any other command, to completion");
    roff_section(f, "SYNOPSIS");
    roff_text(f, "jobctl [-H HOST] COMMAND [options] [arguments]");
    roff_section(f, "DESCRIPTION");
    roff_text(f, "jobctl starts a job, watches it, explains it, and resumes it after failures: on this machine, on "
              "hosts over SSH, and on Slurm. A job is described by a file, jobctl.yaml(5). The first command starts "
              "a daemon for this user; jobs do not depend on it.\n\n" JOBS);
    roff_section(f, "OPTIONS");
    roff_term(f, "-H, --host HOST", "use jobctl on another machine, over SSH: its daemon, jobs, files and environment. "
              "A spec is read on this machine and checked on HOST; relative paths in it start at the home directory on "
              "HOST. \"\" means this machine");
    roff_section(f, "COMMANDS");
    for (const struct command *const *c = command_list(); *c; c++)
        if ((*c)->group != GROUP_HIDDEN)
            roff_term(f, (*c)->name, (*c)->summary);
    roff_text(f, "\nEach has its own page, such as jobctl-submit(1).");
    roff_section(f, "EXIT STATUS");
    roff_text(f, manual_exit_codes);
    terms(f, "ENVIRONMENT", environment, sizeof(environment) / sizeof(environment[0]));
    terms(f, "FILES", files, sizeof(files) / sizeof(files[0]));
    roff_section(f, "EXAMPLES");
    roff_example(f, "jobctl submit job.yaml --follow\njobctl status\njobctl why last");
    roff_section(f, "SEE ALSO");
    for (const struct command *const *c = command_list(); *c; c++) {
        char name[NAME];
        if ((*c)->group == GROUP_HIDDEN)
            continue;
        snprintf(name, sizeof(name), "jobctl-%s", (*c)->name);
        roff_reference(f, name, "1", false);
    }
    roff_reference(f, "jobctl.yaml", "5", false);
    roff_reference(f, "jobctl-config", "5", false);
    roff_reference(f, "jobctl-train", "1", false);
    roff_reference(f, "jobctl-agent", "8", true);
}

/* ---- jobctl.yaml(5), jobctl-config(5) ---- */

static void print_key(FILE *f, const char *path, const struct spec_field *key)
{
    char term[LINE], def[NAME], text[2 * LINE];
    key_text_default(def, sizeof(def), key);
    snprintf(term, sizeof(term), "%s (%s%s%s)", path, key_text_type(key), strcmp(def, "-") == 0 ? "" : ", default ",
             strcmp(def, "-") == 0 ? "" : def);
    snprintf(text, sizeof(text), "%s%s%s", key->help, key->choices ? ": " : "", key->choices ? key->choices : "");
    roff_term(f, term, text);
}

static void print_spec(struct call *call)
{
    FILE *f = call->out.file;
    struct spec_row row;
    size_t cursor = 0;
    page(call, "jobctl.yaml", "5", "a jobctl job, described in YAML");
    roff_section(f, "DESCRIPTION");
    roff_text(f, "The file may have any name; jobctl submit FILE checks it and reports all mistakes at once. A dot "
              "below separates levels: train.steps is the key steps inside train. Durations are 30s, 5m, 1h 30m "
              "or \"24:00:00\".");
    roff_section(f, "KEYS");
    while (spec_row_next(&row, &cursor))
        print_key(f, row.path, row.field);
    roff_section(f, "EXAMPLES");
    roff_example(f, "name: hello\nresources: {gpus: 0, ranks: 2}\nrun: echo \"rank $RANK of $WORLD_SIZE\"");
    roff_section(f, "SEE ALSO");
    roff_reference(f, "jobctl-submit", "1", false);
    roff_reference(f, "jobctl-plan", "1", false);
    roff_reference(f, "jobctl-config", "5", true);
}

static void print_config(struct call *call)
{
    FILE *f = call->out.file;
    const struct config_key *key;
    char term[LINE];
    page(call, "jobctl-config", "5", "settings for all jobs of a user");
    roff_section(f, "SYNOPSIS");
    roff_text(f, "$XDG_CONFIG_HOME/jobctl/config.yaml, else ~/.config/jobctl/config.yaml");
    roff_section(f, "DESCRIPTION");
    roff_text(f, "The file is checked as strictly as a job spec and read on each use, so a change takes effect at "
              "once. Without it the defaults apply.");
    roff_section(f, "KEYS");
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        snprintf(term, sizeof(term), "%s (%s)", key->name, key->value);
        roff_term(f, term, key->help);
    }
    roff_section(f, "EXAMPLES");
    roff_example(f, "groups:\n  gpus: [gpu1, gpu2]\nhost_lost: 2m\nnotify:\n  team: {webhook: \"${SLACK_URL}\"}");
    roff_section(f, "SEE ALSO");
    roff_reference(f, "jobctl-nodes", "1", false);
    roff_reference(f, "jobctl.yaml", "5", true);
}

/* ---- all pages ---- */

/* Pages that belong to no command; `program` prints its own. */
static const struct page {
    const char *name, *section, *program;
    void      (*print)(struct call *call);
} pages[] = {
    {"jobctl", "1", NULL, print_jobctl},
    {"jobctl.yaml", "5", NULL, print_spec},
    {"jobctl-config", "5", NULL, print_config},
    {"jobctl-train", "1", "jobctl-train", NULL},
    {"jobctl-agent", "8", "jobctl-agent", NULL},
};

enum { PAGES = sizeof(pages) / sizeof(pages[0]) };

void manual_list(FILE *f)
{
    for (int i = 0; i < PAGES; i++)
        fprintf(f, "%s.%s\n", pages[i].name, pages[i].section);
    for (const struct command *const *c = command_list(); *c; c++)
        if ((*c)->group != GROUP_HIDDEN)
            fprintf(f, "jobctl-%s.1\n", (*c)->name);
}

static int print_page(struct call *call, const struct page *p)
{
    static const char *const words[] = {"help", "man", NULL};
    if (p->print)
        p->print(call);
    return p->program ? program_pass(p->program, words, call->out.file, &call->err) : 0;
}

/* "jobctl-submit.1" and "jobctl-submit" are the page of this name and section. */
static bool named(const char *given, const char *name, const char *section)
{
    const size_t n = strlen(name);
    return strncmp(given, name, n) == 0 && (!given[n] || (given[n] == '.' && strcmp(given + n + 1, section) == 0));
}

int manual_print(struct call *call, const char *name)
{
    const char *word = strncmp(name, "jobctl-", 7) == 0 ? name + 7 : name;
    for (int i = 0; i < PAGES; i++)
        if (named(name, pages[i].name, pages[i].section))
            return print_page(call, &pages[i]);
    for (const struct command *const *c = command_list(); *c; c++)
        if (named(word, (*c)->name, "1")) {
            print_command(call, *c);
            return 0;
        }
    return err_set(&call->err, ERR_USAGE, "there is no page \"%.40s\"; jobctl help pages lists them", name);
}
