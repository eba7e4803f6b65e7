/* Steps the wall clock of the process that it is loaded into, by as many milliseconds as the file
 * that CLOCK_STEP names says. It asks the kernel itself and allocates nothing: a server reads its
 * clock before its allocator is ready. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long step(void)
{
    int before = errno;
    char text[32] = "0";
    const char *path = getenv("CLOCK_STEP");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        ssize_t length = read(file, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        close(file);
    }
    errno = before;
    return strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long millis = now->tv_sec * 1000LL + now->tv_nsec / 1000000 + step();
        now->tv_nsec = millis % 1000 * 1000000 + now->tv_nsec % 1000000;
        now->tv_sec = millis / 1000;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out)
        *out = exact.tv_sec;
    return exact.tv_sec;
}
