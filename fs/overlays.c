/* SPDX-License-Identifier: Apache-2.0 */
/* An overlay makes private copies of the mounts that its layers lie in. So the
 * kernel does not call them busy, and what the overlay needs goes away from the
 * mount table unnoticed. Its options are the only trace.
 *
 * They read "rw,lowerdir=/a:/b,upperdir=...". Within a path the kernel writes
 * commas, blanks and backslashes as a backslash and three octal digits. Under
 * that, in a list, a colon or comma of a name has a backslash before it. Newer
 * kernels may show each layer as an option of its own, "lowerdir+=/a". */
#include "fs/overlays.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util/path.h"

/* The next character of an option, or -1 at its end. */
static int next_char(const char **text)
{
    const char *s = *text;

    if (s[0] == '\0' || s[0] == ',')
        return -1;
    if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
        *text += 4;
        return (s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0');
    }
    *text += 1;
    return (unsigned char)s[0];
}

static bool is_layer(const char *path, const char *folder)
{
    char plain[PATH_MAX];

    return path[0] == '/' &&
           path_absolute(path, "/", plain, sizeof(plain)) == 0 &&
           path_is_inside(plain, folder);
}

/* True where the path that value is, or one of the paths in it, is in folder.
 */
static bool names_folder(const char *value, bool is_list, const char *folder)
{
    AUTO_FREE char *path = malloc(strlen(value) + 1);
    size_t length = 0;
    int c;

    if (!path)
        return false;
    do {
        c = next_char(&value);
        if (is_list && c == '\\' && (c = next_char(&value)) >= 0) {
            path[length++] = (char)c;
        } else if (c < 0 || (is_list && c == ':')) {
            path[length] = '\0';
            if (is_layer(path, folder))
                return true;
            length = 0;
        } else {
            path[length++] = (char)c;
        }
    } while (c >= 0);
    return false;
}

static bool has_layer(const struct mountinfo_entry *entry, const char *folder)
{
    static const char *const names[] = {"lowerdir=", "lowerdir+=", "datadir+="};
    const char *option = entry->super_options;

    while (option) {
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
            size_t n = strlen(names[i]);
            if (strncmp(option, names[i], n) == 0 &&
                names_folder(option + n, option[n - 2] != '+', folder))
                return true;
        }
        option = strchr(option, ',');
        if (option)
            option++;
    }
    return false;
}

const struct mountinfo_entry *
overlays_next(const struct mountinfo *info, const char *folder,
              const struct mountinfo_entry *previous)
{
    size_t i = previous ? (size_t)(previous - info->entries) + 1 : 0;

    for (; i < info->count; i++)
        if (strcmp(info->entries[i].fstype, "overlay") == 0 &&
            has_layer(&info->entries[i], folder))
            return &info->entries[i];
    return NULL;
}
