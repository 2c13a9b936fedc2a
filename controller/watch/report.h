/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - all diagnostics of a job in one file to share, without secrets */
#ifndef CONTROLLER_WATCH_REPORT_H
#define CONTROLLER_WATCH_REPORT_H

struct call;

/* For the job that the first argument names. A path that ends in .html, and "-", is a page (report_page.h); one in
 * .tar.gz or .tgz an archive. */
int report_write(struct call *call, const char *path);

#endif
