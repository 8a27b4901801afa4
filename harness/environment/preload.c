/* A library that is preloaded into a broker or a worker (LD_PRELOAD), so that a fault can change its wall clock and
 * what its disk does.
 *
 * FENCEPOST_PRELOAD names a file with a `struct control`, which the run writes while the process uses it
 * (harness/processes/preload.py). FENCEPOST_PRELOAD_DATA names the folder in which writes and fsync can be changed, and
 * FENCEPOST_PRELOAD_SYNCED a file to which the library appends the inode and the size of each file that was synced.
 *
 * Only the wall clock is changed. The monotonic clock is not, and waits keep their lengths: a deadline on the wall
 * clock is converted to the machine's clock when the wait begins. libfaketime cannot be used: 0.9.10 lets `time.sleep`
 * of Python 3.11 fail (a sleep until a time of the monotonic clock), and its files in /dev/shm stay after SIGKILL.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* The wall clock is wall_ns + (machine's clock - machine_ns) * rate. */
struct control {
    uint64_t version; /* odd while the run writes the three fields of the clock */
    int64_t machine_ns, wall_ns;
    double rate;
    int64_t sync_delay_ns;
    int64_t sync_error, write_error; /* an errno, or 0 */
    uint64_t delayed_syncs;
    int64_t delayed_ns; /* how long the delayed syncs waited, all together */
    uint64_t failed_syncs, failed_writes;
};

static volatile struct control *control;
static const char *data_folder = "";
static int synced_file = -1;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("FENCEPOST_PRELOAD");
    const char *folder = getenv("FENCEPOST_PRELOAD_DATA");
    const char *synced = getenv("FENCEPOST_PRELOAD_SYNCED");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (folder)
        data_folder = folder;
    if (synced)
        synced_file = open(synced, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (map != MAP_FAILED)
        control = map;
}

/* The next definition of a function: that of the C library. */
#define NEXT(name)                                             \
    static typeof(&name) next;                                 \
    if (!next)                                                 \
        next = (typeof(&name))dlsym(RTLD_NEXT, #name);

static int64_t machine_ns(void) {
    NEXT(clock_gettime)
    struct timespec now;
    next(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static int64_t to_wall(int64_t ns) {
    if (!control)
        return ns;
    for (;;) {
        uint64_t version = __atomic_load_n(&control->version, __ATOMIC_ACQUIRE);
        int64_t since = ns - control->machine_ns, wall = control->wall_ns;
        double rate = control->rate;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && version == control->version)
            return wall + (rate == 1 ? since : (int64_t)(since * rate));
    }
}

static struct timespec as_timespec(int64_t ns) {
    return (struct timespec){ns / SECOND, ns % SECOND};
}

int clock_gettime(clockid_t id, struct timespec *now) {
    NEXT(clock_gettime)
    int status = next(id, now);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        *now = as_timespec(to_wall(now->tv_sec * SECOND + now->tv_nsec));
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int64_t ns = to_wall(machine_ns());
    *now = (struct timeval){ns / SECOND, ns % SECOND / 1000};
    if (zone)
        memset(zone, 0, sizeof(struct timezone));
    return 0;
}

time_t time(time_t *now) {
    time_t seconds = to_wall(machine_ns()) / SECOND;
    if (now)
        *now = seconds;
    return seconds;
}

int timespec_get(struct timespec *now, int base) {
    if (base != TIME_UTC)
        return 0;
    *now = as_timespec(to_wall(machine_ns()));
    return base;
}

/* Convert a deadline on the wall clock. One on the monotonic clock is smaller than 10^9 s, and stays as it is. */
static const struct timespec *on_machine(const struct timespec *deadline, struct timespec *converted) {
    if (!control || !deadline || deadline->tv_sec < SECOND)
        return deadline;
    int64_t now = machine_ns();
    *converted = as_timespec(deadline->tv_sec * SECOND + deadline->tv_nsec + now - to_wall(now));
    return converted;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static typeof(&pthread_cond_timedwait) next;
    if (!next) /* x86-64 has an older version of this function too */
        next = (typeof(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next)
        next = (typeof(next))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec converted;
    return next(cond, mutex, on_machine(deadline, &converted));
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t id,
                           const struct timespec *restrict deadline) {
    NEXT(pthread_cond_clockwait)
    struct timespec converted;
    return next(cond, mutex, id, on_machine(deadline, &converted));
}

/* librdkafka waits with the functions of C11. In the C library they do not call those of POSIX by name. */
int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    NEXT(cnd_timedwait)
    struct timespec converted;
    return next(cond, mutex, on_machine(deadline, &converted));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    NEXT(mtx_timedlock)
    struct timespec converted;
    return next(mutex, on_machine(deadline, &converted));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    NEXT(pthread_mutex_timedlock)
    struct timespec converted;
    return next(mutex, on_machine(deadline, &converted));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    NEXT(sem_timedwait)
    struct timespec converted;
    return next(semaphore, on_machine(deadline, &converted));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t id, const struct timespec *restrict deadline) {
    NEXT(sem_clockwait)
    struct timespec converted;
    return next(semaphore, id, on_machine(deadline, &converted));
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *until, struct timespec *left) {
    NEXT(clock_nanosleep)
    struct timespec converted;
    return next(id, flags, flags & TIMER_ABSTIME ? on_machine(until, &converted) : until, left);
}

/* Whether a file is in the data folder. */
static int is_data(int fd) {
    char link[32], path[4096];
    size_t length = strlen(data_folder);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    return length && size > (ssize_t)length && !strncmp(path, data_folder, length) && path[length] == '/';
}

/* Delay a sync as the run says. Return an errno if it must fail. */
static int before_sync(int fd) {
    if (!control || !(control->sync_delay_ns || control->sync_error) || !is_data(fd))
        return 0;
    int error = (int)control->sync_error;
    if (control->sync_delay_ns) {
        struct timespec left = as_timespec(control->sync_delay_ns), from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        while (nanosleep(&left, &left) && errno == EINTR)
            ;
        clock_gettime(CLOCK_MONOTONIC, &to);
        int64_t waited_ns = (to.tv_sec - from.tv_sec) * SECOND + to.tv_nsec - from.tv_nsec;
        __atomic_add_fetch(&control->delayed_ns, waited_ns, __ATOMIC_RELEASE);
        __atomic_add_fetch(&control->delayed_syncs, 1, __ATOMIC_RELEASE); /* the run reads it first */
    }
    if (error)
        __atomic_add_fetch(&control->failed_syncs, 1, __ATOMIC_RELAXED);
    return error;
}

/* Sync a file with one of the functions of the C library, and note the size that is on the disk now. */
static int sync_with(int (*next)(int), int fd) {
    int error = before_sync(fd);
    if (error) {
        errno = error;
        return -1;
    }
    struct stat before;
    int noted = synced_file >= 0 && is_data(fd) && !fstat(fd, &before);
    int status = next(fd);
    if (!status && noted) {
        uint64_t entry[] = {before.st_ino, (uint64_t)before.st_size};
        noted = write(synced_file, entry, sizeof entry) == sizeof entry;
    }
    return status;
}

int fsync(int fd) {
    NEXT(fsync)
    return sync_with(next, fd);
}

int fdatasync(int fd) {
    NEXT(fdatasync)
    return sync_with(next, fd);
}

/* Return whether a write must fail. Then errno is set. */
static int fails(int fd) {
    if (!control || !control->write_error || !is_data(fd))
        return 0;
    __atomic_add_fetch(&control->failed_writes, 1, __ATOMIC_RELAXED);
    errno = (int)control->write_error;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    NEXT(write)
    return fails(fd) ? -1 : next(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    NEXT(pwrite)
    return fails(fd) ? -1 : next(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    NEXT(pwrite64)
    return fails(fd) ? -1 : next(fd, bytes, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    NEXT(writev)
    return fails(fd) ? -1 : next(fd, parts, count);
}
