/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options as text: help, sample file, manual and README are all
 * made from it. At most 80 columns wide but for markdown. */
#ifndef UTIL_OPTION_TEXT_H
#define UTIL_OPTION_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "util/options.h"

/* Prints text word by word up to 80 columns, each further line after prefix
 * and indent blanks; column is where the first line stands. */
void option_text_wrap(FILE *out, const char *text, int column,
                      const char *prefix, int indent);

/* The same as roff: what is special to it is escaped. */
void option_text_roff(FILE *out, const char *text);

/* Of which each option has one entry: */
void option_text_help(FILE *out);
void option_text_sample(FILE *out);   /* deploy/coordlfs.conf */
void option_text_markdown(FILE *out); /* the table of README.md */
void option_text_man(FILE *out);      /* a section of the manual */

/* How values are written and where they may stand. */
extern const char option_text_notes[];

/* The option's value in config, as it may be given. */
void option_text_format(const struct option_spec *option,
                        const struct config *config, char *out,
                        size_t out_bytes);

#endif
