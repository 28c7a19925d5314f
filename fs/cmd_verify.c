/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs verify`. */
#include <stdio.h>

#include "fs/follow.h"
#include "util/size.h"

static int print_result(const json_t *line, double seconds, void *data)
{
    uint64_t bad = follow_number(line, "bad");
    uint64_t lost = follow_number(line, "lost");
    uint64_t failed = follow_number(line, "failed");
    char a[SIZE_TEXT_BYTES];

    (void)data;
    printf("%llu items, %s verified in %.1f s: %llu bad\n",
           (unsigned long long)follow_number(line, "items"),
           size_format(follow_number(line, "bytes"), a, sizeof(a)), seconds,
           (unsigned long long)bad);
    if (lost > 0)
        printf("%llu items were no longer there; they are cached again when "
               "they are read\n",
               (unsigned long long)lost);
    if (bad > 0)
        command_error("%llu items had other bytes than their checksum says, "
                      "and were dropped; see the log",
                      (unsigned long long)bad);
    if (failed > 0)
        command_error("%llu files could not be verified",
                      (unsigned long long)failed);
    return bad > 0 || failed > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_verify(int argc, char **argv)
{
    return follow_command(&(struct follow){.task = "verify",
                                           .doing = "verified",
                                           .result = print_result},
                          argc, argv);
}
