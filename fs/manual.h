/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of commands and options as texts for a user. */
#ifndef FS_MANUAL_H
#define FS_MANUAL_H

#include <stdio.h>

#include "fs/commands.h"

/* What `coordlfs help` prints, without and with a command's name. */
void manual_print_commands(FILE *out);
void manual_print_command(FILE *out, const struct command *command);

/* deploy/coordlfs.8 and deploy/completion/coordlfs */
void manual_print_man(FILE *out);
void manual_print_completion(FILE *out);

#endif
