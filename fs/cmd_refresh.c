/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs refresh`. */
#include <stdio.h>

#include "fs/follow.h"

static int print_result(const json_t *line, double seconds, void *data)
{
    uint64_t failed = follow_number(line, "failed");

    (void)data;
    printf("%llu checked in %.1f s: %llu changed, %llu created, %llu removed\n",
           (unsigned long long)follow_number(line, "checked"), seconds,
           (unsigned long long)follow_number(line, "changed"),
           (unsigned long long)follow_number(line, "created"),
           (unsigned long long)follow_number(line, "removed"));
    if (failed > 0)
        command_error("%llu files could not be compared",
                      (unsigned long long)failed);
    return failed > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_refresh(int argc, char **argv)
{
    return follow_command(&(struct follow){.task = "refresh",
                                           .doing = "compared",
                                           .result = print_result},
                          argc, argv);
}
