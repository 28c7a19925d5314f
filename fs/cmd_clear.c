/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs clear`. */
#include <stdio.h>

#include "fs/follow.h"
#include "util/size.h"

static int print_result(const json_t *line, double seconds, void *data)
{
    uint64_t failed = follow_number(line, "failed");
    char a[SIZE_TEXT_BYTES];

    (void)seconds;
    (void)data;
    printf("%llu items, %s dropped\n",
           (unsigned long long)follow_number(line, "items"),
           size_format(follow_number(line, "bytes"), a, sizeof(a)));
    if (failed > 0)
        command_error("%llu files could not be dropped",
                      (unsigned long long)failed);
    return failed > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_clear(int argc, char **argv)
{
    return follow_command(&(struct follow){.task = "clear",
                                           .doing = "dropped",
                                           .result = print_result},
                          argc, argv);
}
