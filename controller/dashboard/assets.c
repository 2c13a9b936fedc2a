/* SPDX-License-Identifier: Apache-2.0 */
/* assets.c - see assets.h */
#include "controller/dashboard/assets.h"

#include <string.h>

#define ASSET(symbol, file)                                                                                            \
    __asm__(".section .rodata\njobctl_asset_" #symbol ":\n.incbin \"controller/dashboard/" file "\"\n.byte 0\n" \
            ".previous\n");                                                                                            \
    extern const char jobctl_asset_##symbol[]

#define HTML   "text/html; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

ASSET(index, "assets/index.html");
ASSET(style, "assets/style.css");
ASSET(pages, "assets/pages.css");
ASSET(icon, "assets/icon.svg");
ASSET(actions, "assets/actions.js");
ASSET(api, "assets/api.js");
ASSET(compare, "assets/compare.js");
ASSET(dom, "assets/dom.js");
ASSET(editor, "assets/editor.js");
ASSET(figures, "assets/figures.js");
ASSET(job, "assets/job.js");
ASSET(jobs, "assets/jobs.js");
ASSET(ledger, "assets/ledger.js");
ASSET(logs, "assets/logs.js");
ASSET(machines, "assets/machines.js");
ASSET(main, "assets/main.js");
ASSET(ranks, "assets/ranks.js");
ASSET(row, "assets/row.js");
ASSET(samples, "assets/samples.js");
ASSET(specs, "assets/specs.js");
ASSET(story, "assets/story.js");
ASSET(texts, "assets/texts.js");
ASSET(timeline, "assets/timeline.js");
ASSET(virtual, "assets/virtual.js");
ASSET(uplot, "uplot/uPlot.esm.js");
ASSET(uplot_style, "uplot/uPlot.min.css");
ASSET(report, "report/report.js");
ASSET(saved, "report/saved.js");

static const struct asset assets[] = {
    { "index.html", HTML, jobctl_asset_index },
    { "style.css", STYLE, jobctl_asset_style },
    { "pages.css", STYLE, jobctl_asset_pages },
    { "icon.svg", "image/svg+xml", jobctl_asset_icon },
    { "actions.js", SCRIPT, jobctl_asset_actions },
    { "api.js", SCRIPT, jobctl_asset_api },
    { "compare.js", SCRIPT, jobctl_asset_compare },
    { "dom.js", SCRIPT, jobctl_asset_dom },
    { "editor.js", SCRIPT, jobctl_asset_editor },
    { "figures.js", SCRIPT, jobctl_asset_figures },
    { "job.js", SCRIPT, jobctl_asset_job },
    { "jobs.js", SCRIPT, jobctl_asset_jobs },
    { "ledger.js", SCRIPT, jobctl_asset_ledger },
    { "logs.js", SCRIPT, jobctl_asset_logs },
    { "machines.js", SCRIPT, jobctl_asset_machines },
    { "main.js", SCRIPT, jobctl_asset_main },
    { "ranks.js", SCRIPT, jobctl_asset_ranks },
    { "row.js", SCRIPT, jobctl_asset_row },
    { "samples.js", SCRIPT, jobctl_asset_samples },
    { "specs.js", SCRIPT, jobctl_asset_specs },
    { "story.js", SCRIPT, jobctl_asset_story },
    { "texts.js", SCRIPT, jobctl_asset_texts },
    { "timeline.js", SCRIPT, jobctl_asset_timeline },
    { "virtual.js", SCRIPT, jobctl_asset_virtual },
    { "uplot.js", SCRIPT, jobctl_asset_uplot },
    { "uplot.css", STYLE, jobctl_asset_uplot_style },
};

const struct asset assets_report = { "report.js", SCRIPT, jobctl_asset_report };
const struct asset assets_saved = { "saved.js", SCRIPT, jobctl_asset_saved };

const struct asset *assets_at(size_t i)
{
    return i < sizeof(assets) / sizeof(assets[0]) ? &assets[i] : NULL;
}

const struct asset *assets_find(const char *name)
{
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
        if (strcmp(assets[i].name, name) == 0)
            return &assets[i];
    return NULL;
}
