/* SPDX-License-Identifier: Apache-2.0 */
/* glossary.h - the terms that jobctl prints: docs/GLOSSARY.md, which is part of the program
 *
 * A row of its tables is "| term | meaning | elsewhere |"; a line "## ..." begins a section.
 */
#ifndef CONTROLLER_HELP_GLOSSARY_H
#define CONTROLLER_HELP_GLOSSARY_H

struct terminal;

void glossary_print(const struct terminal *t);

#endif
