/* A wall clock that is AHEAD seconds ahead, or as many as the file AHEAD_FILE says now. By system calls and not by the functions that it stands in for: with
 * libfaketime, which looks those up, the memory allocator of Debian's redis-server calls itself without end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef AHEAD_FILE
static long ahead(void) {
    int saved = errno, file = open(AHEAD_FILE, O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
        close(file);
    }
    errno = saved;
    return strtol(text, NULL, 10);
}
#define AHEAD ahead()
#endif

int clock_gettime(clockid_t id, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, id, time);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += AHEAD;
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
