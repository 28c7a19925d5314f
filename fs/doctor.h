/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `coordlfs doctor`. Each prints what it finds, and changes
 * nothing that stays. For one thread. */
#ifndef FS_DOCTOR_H
#define FS_DOCTOR_H

#include "util/cleanup.h"
#include "util/config.h"

struct doctor {
    const struct config *config;
    const char *dataset; /* its real path; NULL where none was named */
    unsigned problems;
    unsigned notes;
};

/* One finding: all is well; something to know; something to mend. Printed as
 * paragraphs. */
void doctor_ok(struct doctor *doctor, const char *format, ...)
    PRINTF_LIKE(2, 3);
void doctor_note(struct doctor *doctor, const char *format, ...)
    PRINTF_LIKE(2, 3);
void doctor_problem(struct doctor *doctor, const char *format, ...)
    PRINTF_LIKE(2, 3);

void doctor_check_machine(struct doctor *doctor);
void doctor_check_memory(struct doctor *doctor);
void doctor_check_cache(struct doctor *doctor);
void doctor_check_dataset(struct doctor *doctor);

#endif
