/* Counts the file operations below one folder, below Python and Rust alike, and does something at the n-th:
   ends the process, cuts a write, or fails. For LD_PRELOAD; nothing happens until faults_arm is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, END, TEAR, FAIL_ONCE, FAIL_ALWAYS, SHORT };

static char folder[PATH_MAX], wanted[256];
static atomic_int action = OFF, failing_number = 0, log_to = -1;
static atomic_long seen = 0, at = 0;

#define REAL(type, name, ...)                                        \
    static type (*real)(__VA_ARGS__) = NULL;                         \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* below: the folder, with no slash at its end. operations: names with a space before and after each; "" for all. */
void faults_arm(const char *below, const char *operations, int what, long number, int error, int log) {
    atomic_store(&action, OFF);
    snprintf(folder, sizeof folder, "%s", below);
    snprintf(wanted, sizeof wanted, "%s", operations);
    atomic_store(&seen, 0);
    atomic_store(&at, number);
    atomic_store(&failing_number, error);
    atomic_store(&log_to, log);
    atomic_store(&action, what);
}

long faults_seen(void) { return atomic_load(&seen); }

static ssize_t plain_write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    return real(fd, data, size);
}

static int is_below(const char *path) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static const char *of_fd(int fd, char *buffer) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, buffer, PATH_MAX - 1);
    if (length < 0) return "";
    buffer[length] = 0;
    return buffer;
}

static const char *of_path(int directory, const char *path, char *buffer) {
    char base[PATH_MAX];
    if (!path || path[0] == '/') return path ? path : "";
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return path;
    } else {
        of_fd(directory, base);
    }
    if (snprintf(buffer, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return path;
    return buffer;
}

/* 0: go on; -1: cut this write; else the error that it fails with. */
static int met(const char *operation, const char *path) {
    int what = atomic_load(&action);
    if (what == OFF || !is_below(path)) return 0;
    char spaced[40];
    snprintf(spaced, sizeof spaced, " %s ", operation);
    if (wanted[0] ? !strstr(wanted, spaced) : strcmp(operation, "read") == 0) return 0;
    long number = atomic_fetch_add(&seen, 1) + 1;
    int log = atomic_load(&log_to);
    if (log >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%s %s\n", operation, path);
        if (length > 0) (void)!plain_write(log, line, (size_t)length);
    }
    long chosen = atomic_load(&at);
    if (what == COUNT || number < chosen) return 0;
    if (what == END) kill(getpid(), SIGKILL);
    if (what == TEAR) return number == chosen ? -1 : 0;
    if (what == FAIL_ONCE) return number == chosen ? atomic_load(&failing_number) : 0;
    if (what == FAIL_ALWAYS) return atomic_load(&failing_number);
    return -1;
}

#define MEET(operation, path)                             \
    do {                                                  \
        int why_ = atomic_load(&action) == OFF ? 0 : met(operation, path); \
        if (why_ > 0) { errno = why_; return -1; }        \
    } while (0)

static ssize_t cut(size_t size, ssize_t done) {
    if (atomic_load(&action) == TEAR) kill(getpid(), SIGKILL);
    (void)size;
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    char buffer[PATH_MAX];
    int why = atomic_load(&action) == OFF ? 0 : met("write", of_fd(fd, buffer));
    if (why > 0) { errno = why; return -1; }
    if (why < 0) return cut(size, plain_write(fd, data, (size + 1) / 2));
    return plain_write(fd, data, size);
}

#define PWRITE(name, offset)                                                               \
    ssize_t name(int fd, const void *data, size_t size, offset place) {                    \
        REAL(ssize_t, name, int, const void *, size_t, offset);                            \
        char buffer[PATH_MAX];                                                             \
        int why = atomic_load(&action) == OFF ? 0 : met("write", of_fd(fd, buffer));       \
        if (why > 0) { errno = why; return -1; }                                           \
        if (why < 0) return cut(size, real(fd, data, (size + 1) / 2, place));              \
        return real(fd, data, size, place);                                                \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    char buffer[PATH_MAX];
    int why = atomic_load(&action) == OFF ? 0 : met("write", of_fd(fd, buffer));
    if (why > 0) { errno = why; return -1; }
    if (why < 0 && count > 0) return cut(0, plain_write(fd, parts[0].iov_base, (parts[0].iov_len + 1) / 2));
    return real(fd, parts, count);
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define OPENED(name)                                                                      \
    int name(const char *path, int flags, ...) {                                          \
        REAL(int, name, const char *, int, ...);                                          \
        va_list rest; va_start(rest, flags);                                              \
        mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(rest, mode_t) : 0;       \
        va_end(rest);                                                                     \
        char buffer[PATH_MAX];                                                            \
        MEET(writes(flags) ? "open" : "read", of_path(AT_FDCWD, path, buffer));           \
        return real(path, flags, mode);                                                   \
    }
OPENED(open)
OPENED(open64)

#define OPENED_AT(name)                                                                   \
    int name(int directory, const char *path, int flags, ...) {                           \
        REAL(int, name, int, const char *, int, ...);                                     \
        va_list rest; va_start(rest, flags);                                              \
        mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(rest, mode_t) : 0;       \
        va_end(rest);                                                                     \
        char buffer[PATH_MAX];                                                            \
        MEET(writes(flags) ? "open" : "read", of_path(directory, path, buffer));          \
        return real(directory, path, flags, mode);                                        \
    }
OPENED_AT(openat)
OPENED_AT(openat64)

#define OF_FD(name, operation)                        \
    int name(int fd) {                                \
        REAL(int, name, int);                         \
        char buffer[PATH_MAX];                        \
        MEET(operation, of_fd(fd, buffer));           \
        return real(fd);                              \
    }
OF_FD(fsync, "fsync")
OF_FD(fdatasync, "fsync")

int flock(int fd, int how) {
    REAL(int, flock, int, int);
    char buffer[PATH_MAX];
    MEET("lock", of_fd(fd, buffer));
    return real(fd, how);
}

#define TRUNCATED(name, offset)                       \
    int name(int fd, offset size) {                   \
        REAL(int, name, int, offset);                 \
        char buffer[PATH_MAX];                        \
        MEET("truncate", of_fd(fd, buffer));          \
        return real(fd, size);                        \
    }
TRUNCATED(ftruncate, off_t)
TRUNCATED(ftruncate64, off64_t)

int rename(const char *old, const char *new_) {
    REAL(int, rename, const char *, const char *);
    char buffer[PATH_MAX];
    MEET("rename", of_path(AT_FDCWD, new_, buffer));
    return real(old, new_);
}

int renameat(int from, const char *old, int to, const char *new_) {
    REAL(int, renameat, int, const char *, int, const char *);
    char buffer[PATH_MAX];
    MEET("rename", of_path(to, new_, buffer));
    return real(from, old, to, new_);
}

#define OF_PATH(name, operation)                      \
    int name(const char *path) {                      \
        REAL(int, name, const char *);                \
        char buffer[PATH_MAX];                        \
        MEET(operation, of_path(AT_FDCWD, path, buffer)); \
        return real(path);                            \
    }
OF_PATH(unlink, "unlink")
OF_PATH(rmdir, "unlink")

int unlinkat(int directory, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char buffer[PATH_MAX];
    MEET("unlink", of_path(directory, path, buffer));
    return real(directory, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    char buffer[PATH_MAX];
    MEET("mkdir", of_path(AT_FDCWD, path, buffer));
    return real(path, mode);
}

int chmod(const char *path, mode_t mode) {
    REAL(int, chmod, const char *, mode_t);
    char buffer[PATH_MAX];
    MEET("chmod", of_path(AT_FDCWD, path, buffer));
    return real(path, mode);
}
