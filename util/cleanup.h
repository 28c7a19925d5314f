/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound cleanup and the attributes that the whole tree uses.
 *
 * AUTO_FREE, AUTO_CLOSE and SCOPED_LOCK release what they name when the scope
 * ends. Never jump with goto past one of them: the cleanup would run on an
 * uninitialised variable. */
#ifndef UTIL_CLEANUP_H
#define UTIL_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

static inline pthread_mutex_t *cleanup_lock(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    return lock;
}

/* Frees the pointer that it declares. */
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
/* Closes the descriptor that it declares, unless it is negative. */
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))
/* Holds a mutex until the end of the enclosing scope; one per scope. */
#define SCOPED_LOCK(mutex)                                                     \
    __attribute__((cleanup(cleanup_unlock), unused))                           \
    pthread_mutex_t *scoped_lock = cleanup_lock(mutex)

#endif
