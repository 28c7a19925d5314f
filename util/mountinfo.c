/* SPDX-License-Identifier: Apache-2.0 */
/* The whole table is read into one buffer and cut into strings in place.
 *
 * A line is: id parent major:minor root mountpoint options [tags...] - fstype
 * source super-options. The kernel writes blanks, tabs, newlines, backslashes
 * and '#' in names as a backslash and three octal digits. */
#include "util/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"
#include "util/path.h"

enum { READ_BYTES = 32768, FIRST_ENTRIES = 64 };

/* Returns the contents of path as a string that the caller frees, or NULL with
 * errno set. */
static char *read_text(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t capacity = READ_BYTES;
    size_t length = 0;

    if (fd < 0)
        return NULL;
    char *text = malloc(capacity + 1);
    while (text != NULL) {
        ssize_t n = read(fd, text + length, capacity - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int err = errno;
            free(text);
            errno = err;
            return NULL;
        }
        if (n == 0) {
            text[length] = '\0';
            return text;
        }
        length += (size_t)n;
        if (length == capacity) {
            capacity *= 2;
            char *larger = realloc(text, capacity + 1);
            if (larger == NULL)
                free(text);
            text = larger;
        }
    }
    errno = ENOMEM;
    return NULL;
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

static void unescape(char *text)
{
    char *out = text;

    while (*text != '\0') {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
            is_octal(text[2]) && is_octal(text[3])) {
            *out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 +
                            (text[3] - '0'));
            text += 4;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

/* Cuts line (changed) into the fields of entry; false where it is malformed. */
static bool parse_line(char *line, struct mountinfo_entry *entry)
{
    char *id = strsep(&line, " ");
    char *parent = strsep(&line, " ");
    char *device = strsep(&line, " ");
    char *tag;
    char end;

    entry->root = strsep(&line, " ");
    entry->mountpoint = strsep(&line, " ");
    entry->options = strsep(&line, " ");
    do
        tag = strsep(&line, " ");
    while (tag != NULL && strcmp(tag, "-") != 0);
    entry->fstype = strsep(&line, " ");
    entry->source = strsep(&line, " ");
    entry->super_options = strsep(&line, " ");
    if (entry->super_options == NULL ||
        sscanf(id, "%d%c", &entry->mount_id, &end) != 1 ||
        sscanf(parent, "%d%c", &entry->parent_id, &end) != 1 ||
        sscanf(device, "%u:%u%c", &entry->major, &entry->minor, &end) != 2)
        return false;

    unescape(entry->root);
    unescape(entry->mountpoint);
    unescape(entry->fstype);
    unescape(entry->source);
    return true;
}

static int grow(struct mountinfo *info, size_t *capacity)
{
    size_t wanted = *capacity ? *capacity * 2 : FIRST_ENTRIES;
    struct mountinfo_entry *larger =
        reallocarray(info->entries, wanted, sizeof(*larger));

    if (larger == NULL)
        return -ENOMEM;
    info->entries = larger;
    *capacity = wanted;
    return 0;
}

static int parse_text(struct mountinfo *info)
{
    char *rest = info->text;
    size_t capacity = 0;
    char *line;

    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line == '\0')
            continue;
        if (info->count == capacity) {
            int err = grow(info, &capacity);
            if (err)
                return err;
        }
        if (!parse_line(line, &info->entries[info->count]))
            return -EBADMSG;
        info->count++;
    }
    return 0;
}

int mountinfo_init(struct mountinfo *info, const char *path)
{
    struct mountinfo read = {.text = read_text(path)};
    int err = read.text == NULL ? -errno : parse_text(&read);

    if (err) {
        log_error("cannot read the mount table %s: %s", path, strerror(-err));
        mountinfo_fini(&read);
        return err;
    }
    *info = read;
    return 0;
}

void mountinfo_fini(struct mountinfo *info)
{
    free(info->entries);
    free(info->text);
    *info = (struct mountinfo){0};
}

bool mountinfo_has_option(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (;;) {
        size_t n = strcspn(list, ",");
        if (n == length && memcmp(list, word, n) == 0)
            return true;
        if (list[n] == '\0')
            return false;
        list += n + 1;
    }
}

bool mountinfo_is_coordlfs(const struct mountinfo_entry *entry)
{
    return strcmp(entry->fstype, MOUNTINFO_FSTYPE) == 0;
}

/* True where entry is mounted on a mount that the table does not list: the
 * root, and in a chroot whatever lies below it. */
static bool is_top(const struct mountinfo *info,
                   const struct mountinfo_entry *entry)
{
    for (size_t i = 0; i < info->count; i++)
        if (info->entries[i].mount_id == entry->parent_id &&
            &info->entries[i] != entry)
            return false;
    return true;
}

/* The mount that a walk along path enters next from below (NULL: the start). Of
 * several it is the one with the shortest mount point: the walk gets there
 * first, and what lies behind is hidden. */
static const struct mountinfo_entry *
enter_next(const struct mountinfo *info, const struct mountinfo_entry *below,
           const char *path)
{
    const struct mountinfo_entry *next = NULL;
    size_t next_length = 0;

    for (size_t i = 0; i < info->count; i++) {
        const struct mountinfo_entry *entry = &info->entries[i];
        size_t length = strlen(entry->mountpoint);

        if (!path_is_inside(path, entry->mountpoint) || entry == below)
            continue;
        if (below ? entry->parent_id != below->mount_id : !is_top(info, entry))
            continue;
        if (next == NULL || length < next_length) {
            next = entry;
            next_length = length;
        }
    }
    return next;
}

const struct mountinfo_entry *mountinfo_find_path(const struct mountinfo *info,
                                                  const char *path)
{
    const struct mountinfo_entry *found = NULL;
    const struct mountinfo_entry *at = NULL;

    /* as many steps as mounts at most, should a table have a loop */
    for (size_t steps = 0; steps < info->count; steps++) {
        at = enter_next(info, at, path);
        if (at == NULL)
            break;
        if (mountinfo_is_coordlfs(at))
            found = at;
        else if (found != NULL &&
                 path_is_inside(found->mountpoint, at->mountpoint))
            found = NULL; /* covered */
    }
    return found;
}

const struct mountinfo_entry *
mountinfo_find_device(const struct mountinfo *info, unsigned major,
                      unsigned minor)
{
    for (size_t i = 0; i < info->count; i++)
        if (info->entries[i].major == major && info->entries[i].minor == minor)
            return &info->entries[i];
    return NULL;
}

size_t mountinfo_count_device(const struct mountinfo *info, unsigned major,
                              unsigned minor)
{
    size_t count = 0;

    for (size_t i = 0; i < info->count; i++)
        if (info->entries[i].major == major && info->entries[i].minor == minor)
            count++;
    return count;
}

const struct mountinfo_entry *
mountinfo_next_coordlfs(const struct mountinfo *info,
                        const struct mountinfo_entry *previous)
{
    size_t i = previous ? (size_t)(previous - info->entries) + 1 : 0;

    for (; i < info->count; i++)
        if (mountinfo_is_coordlfs(&info->entries[i]))
            return &info->entries[i];
    return NULL;
}
