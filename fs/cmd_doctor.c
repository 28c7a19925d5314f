/* SPDX-License-Identifier: Apache-2.0 */
/* `coordlfs doctor`: runs the checks with the configuration that mount would
 * have. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/command.h"
#include "fs/control.h"
#include "fs/doctor.h"
#include "util/option_text.h"
#include "util/path.h"

enum { KIND_COLUMN = 9, FINDING_BYTES = 3 * PATH_MAX };

static void print_finding(const char *kind, const char *format,
                          va_list arguments)
{
    AUTO_FREE char *text = malloc(FINDING_BYTES);

    if (!text)
        return;
    vsnprintf(text, FINDING_BYTES, format, arguments);
    AUTO_FREE char *printable = control_printable(text);
    printf("%-*s", KIND_COLUMN, kind);
    option_text_wrap(stdout, printable ? printable : text, KIND_COLUMN, "",
                     KIND_COLUMN);
    fflush(stdout);
}

void doctor_ok(struct doctor *doctor, const char *format, ...)
{
    va_list arguments;

    (void)doctor;
    va_start(arguments, format);
    print_finding("ok", format, arguments);
    va_end(arguments);
}

void doctor_note(struct doctor *doctor, const char *format, ...)
{
    va_list arguments;

    doctor->notes++;
    va_start(arguments, format);
    print_finding("note", format, arguments);
    va_end(arguments);
}

void doctor_problem(struct doctor *doctor, const char *format, ...)
{
    va_list arguments;

    doctor->problems++;
    va_start(arguments, format);
    print_finding("problem", format, arguments);
    va_end(arguments);
}

/* The dataset's real path, found without entering a mount that may be dead. */
static void find_dataset(struct doctor *doctor, const char *path, char *real)
{
    struct mountinfo info;
    int err = path_absolute(path, NULL, real, PATH_MAX);

    if (err != 0) {
        doctor_problem(doctor, "dataset %s: %s", path, strerror(-err));
        return;
    }
    doctor->dataset = real;
    if (mountinfo_init(&info, MOUNTINFO_PATH) != 0)
        return;
    char resolved[PATH_MAX];
    if (!mountinfo_find_path(&info, real) && realpath(real, resolved))
        memcpy(real, resolved, strlen(resolved) + 1);
    mountinfo_fini(&info);
}

int cmd_doctor(int argc, char **argv)
{
    static struct config config;
    struct config_positional positional;
    char error[CONFIG_ERROR_BYTES], dataset[PATH_MAX];
    struct doctor doctor = {.config = &config};
    int err =
        config_load(&config, argc, argv, &positional, error, sizeof(error));

    if (err == 0 && positional.count > 1) {
        command_error("doctor takes one DATASET, but got %s and %s",
                      positional.values[0], positional.values[1]);
        return EXIT_USAGE;
    }
    if (err != 0) {
        command_error("%s", error);
        return EXIT_USAGE;
    }
    doctor_ok(&doctor, "configuration: %s",
              config.config_file[0] ? config.config_file
                                    : "there is no file, which is fine");
    if (positional.count > 0)
        find_dataset(&doctor, positional.values[0], dataset);
    doctor_check_machine(&doctor);
    doctor_check_memory(&doctor);
    doctor_check_cache(&doctor);
    if (doctor.dataset)
        doctor_check_dataset(&doctor);
    printf("\n%u problem%s, %u note%s\n", doctor.problems,
           doctor.problems == 1 ? "" : "s", doctor.notes,
           doctor.notes == 1 ? "" : "s");
    return doctor.problems > 0 ? EXIT_FAILED : EXIT_DONE;
}
