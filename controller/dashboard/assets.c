/* SPDX-License-Identifier: Apache-2.0 */
/* assets.c - see assets.h */
#include "controller/dashboard/assets.h"

#include <stddef.h>
#include <string.h>

#define ASSET(symbol, file)                                                                                            \
    __asm__(".section .rodata\njobctl_asset_" #symbol ":\n.incbin \"controller/dashboard/assets/" file "\"\n.byte 0\n" \
            ".previous\n");                                                                                            \
    extern const char jobctl_asset_##symbol[]

#define HTML   "text/html; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

ASSET(index, "index.html");
ASSET(style, "style.css");
ASSET(icon, "icon.svg");
ASSET(main, "main.js");
ASSET(api, "api.js");
ASSET(dom, "dom.js");
ASSET(texts, "texts.js");
ASSET(figures, "figures.js");
ASSET(actions, "actions.js");
ASSET(jobs, "jobs.js");
ASSET(job, "job.js");
ASSET(chart, "chart.js");

static const struct asset assets[] = {
    { "index.html", HTML, jobctl_asset_index },      { "style.css", STYLE, jobctl_asset_style },
    { "icon.svg", "image/svg+xml", jobctl_asset_icon },
    { "main.js", SCRIPT, jobctl_asset_main },        { "api.js", SCRIPT, jobctl_asset_api },
    { "dom.js", SCRIPT, jobctl_asset_dom },          { "texts.js", SCRIPT, jobctl_asset_texts },
    { "figures.js", SCRIPT, jobctl_asset_figures },  { "actions.js", SCRIPT, jobctl_asset_actions },
    { "jobs.js", SCRIPT, jobctl_asset_jobs },        { "job.js", SCRIPT, jobctl_asset_job },
    { "chart.js", SCRIPT, jobctl_asset_chart },
};

const struct asset *assets_find(const char *name)
{
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
        if (strcmp(assets[i].name, name) == 0)
            return &assets[i];
    return NULL;
}
