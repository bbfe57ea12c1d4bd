/* A library to preload: it counts every call that changes a watched folder, and at the k-th one kills the
 * process, tears the write in two, or fails it with an error number. It sits below Python, SQLite and the
 * native libraries alike, so no writer can pass it by.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, CREATE = 2, CHANGE = 4, SYNC = 8, OPEN = 16 };
enum { COUNT = 0, KILL = 1, TEAR = 2, FAIL = 3, FAIL_ONCE = 4 };
enum { GO = 0, HALF = 1, REFUSE = 2 };

static char watched_prefix[PATH_MAX];
static size_t prefix_length;
static char watched[1 << 16];
static atomic_long seen;
static long when;
static int mode, error_number, kinds = ~0;

void fault_watch(const char *prefix) {
  snprintf(watched_prefix, sizeof watched_prefix, "%s", prefix);
  prefix_length = strlen(watched_prefix);
}

void fault_arm(long at, int how, int error, int which) {
  when = at, mode = how, error_number = error, kinds = which;
  atomic_store(&seen, 0);
}

long fault_count(void) { return atomic_load(&seen); }

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int decide(int kind) {
  if (!prefix_length || !(kinds & kind)) return GO;
  long mine = atomic_fetch_add(&seen, 1) + 1;
  if (mode == COUNT || mine < when) return GO;
  if (mode == FAIL || (mode == FAIL_ONCE && mine == when)) {
    if (kind == WRITE && mine == when) return HALF; /* a disk fills in the middle of a write */
    errno = error_number;
    return REFUSE;
  }
  if (mine > when || mode == FAIL_ONCE) return GO;
  if (mode == TEAR && kind == WRITE) return HALF;
  die();
  return GO;
}

static int under(int folder, const char *path) {
  char full[PATH_MAX];
  if (!prefix_length || !path) return 0;
  if (path[0] != '/') {
    char link[64];
    ssize_t n;
    if (folder == AT_FDCWD)
      n = getcwd(full, sizeof full) ? (ssize_t)strlen(full) : -1;
    else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
      n = readlink(link, full, sizeof full - 1);
    }
    if (n < 0) return 0;
    snprintf(full + n, sizeof full - n, "/%s", path);
    path = full;
  }
  return strncmp(path, watched_prefix, prefix_length) == 0;
}

#define REAL(name, type, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opening(int folder, const char *path, int flags, mode_t permissions) {
  REAL("openat", int, int, const char *, int, ...);
  int mine = under(folder, path);
  if (mine && (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))) {
    int fresh = (flags & O_CREAT) && faccessat(folder, path, F_OK, 0) != 0;
    if (decide(fresh ? CREATE : OPEN) == REFUSE) return -1;
  }
  int fd = real(folder, path, flags, permissions);
  if (fd >= 0 && fd < (int)sizeof watched) watched[fd] = mine;
  return fd;
}

#define PERMISSIONS \
  mode_t permissions = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    permissions = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) { PERMISSIONS return opening(AT_FDCWD, path, flags, permissions); }
int open64(const char *path, int flags, ...) { PERMISSIONS return opening(AT_FDCWD, path, flags, permissions); }
int openat(int folder, const char *path, int flags, ...) { PERMISSIONS return opening(folder, path, flags, permissions); }
int openat64(int folder, const char *path, int flags, ...) { PERMISSIONS return opening(folder, path, flags, permissions); }
int creat(const char *path, mode_t p) { return opening(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, p); }
int creat64(const char *path, mode_t p) { return opening(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, p); }

int close(int fd) {
  REAL("close", int, int);
  if (fd >= 0 && fd < (int)sizeof watched) watched[fd] = 0;
  return real(fd);
}

static int is_watched(int fd) { return fd >= 0 && fd < (int)sizeof watched && watched[fd]; }

/* What is left to write after the decision: all, half, or nothing. */
static ssize_t cut(int fd, size_t size) {
  if (!is_watched(fd) || size == 0) return (ssize_t)size;
  switch (decide(WRITE)) {
    case REFUSE: return -1;
    case HALF:
      if (size < 2) {
        if (mode == TEAR) die();
        errno = error_number;
        return -1;
      }
      return (ssize_t)(size / 2);
    default: return (ssize_t)size;
  }
}

static ssize_t torn(ssize_t done, ssize_t allowed, size_t size) {
  if (allowed < (ssize_t)size && mode == TEAR) die();
  return done;
}

ssize_t write(int fd, const void *data, size_t size) {
  REAL("write", ssize_t, int, const void *, size_t);
  ssize_t allowed = cut(fd, size);
  return allowed < 0 ? -1 : torn(real(fd, data, (size_t)allowed), allowed, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t place) {
  REAL("pwrite", ssize_t, int, const void *, size_t, off_t);
  ssize_t allowed = cut(fd, size);
  return allowed < 0 ? -1 : torn(real(fd, data, (size_t)allowed, place), allowed, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t place) {
  REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t);
  ssize_t allowed = cut(fd, size);
  return allowed < 0 ? -1 : torn(real(fd, data, (size_t)allowed, place), allowed, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL("writev", ssize_t, int, const struct iovec *, int);
  if (!is_watched(fd) || count < 1) return real(fd, parts, count);
  ssize_t allowed = cut(fd, parts[0].iov_len);
  if (allowed < 0) return -1;
  if (allowed == (ssize_t)parts[0].iov_len) return real(fd, parts, count);
  struct iovec first = {parts[0].iov_base, (size_t)allowed};
  return torn(real(fd, &first, 1), allowed, parts[0].iov_len);
}

#define ON_FD(name, kind, type, parameters, arguments) \
  int name parameters { \
    REAL(#name, int, type); \
    if (is_watched(fd) && decide(kind) == REFUSE) return -1; \
    return real arguments; \
  }

ON_FD(fsync, SYNC, int, (int fd), (fd))
ON_FD(fdatasync, SYNC, int, (int fd), (fd))

int ftruncate(int fd, off_t size) {
  REAL("ftruncate", int, int, off_t);
  return is_watched(fd) && decide(CHANGE) == REFUSE ? -1 : real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
  REAL("ftruncate64", int, int, off64_t);
  return is_watched(fd) && decide(CHANGE) == REFUSE ? -1 : real(fd, size);
}

int mkdir(const char *path, mode_t p) {
  REAL("mkdir", int, const char *, mode_t);
  return under(AT_FDCWD, path) && decide(CREATE) == REFUSE ? -1 : real(path, p);
}

int rmdir(const char *path) {
  REAL("rmdir", int, const char *);
  return under(AT_FDCWD, path) && decide(CHANGE) == REFUSE ? -1 : real(path);
}

int unlink(const char *path) {
  REAL("unlink", int, const char *);
  return under(AT_FDCWD, path) && decide(CHANGE) == REFUSE ? -1 : real(path);
}

int unlinkat(int folder, const char *path, int flags) {
  REAL("unlinkat", int, int, const char *, int);
  return under(folder, path) && decide(CHANGE) == REFUSE ? -1 : real(folder, path, flags);
}

int rename(const char *from, const char *to) {
  REAL("rename", int, const char *, const char *);
  return under(AT_FDCWD, to) && decide(CHANGE) == REFUSE ? -1 : real(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
  REAL("renameat", int, int, const char *, int, const char *);
  return under(b, to) && decide(CHANGE) == REFUSE ? -1 : real(a, from, b, to);
}

int link(const char *from, const char *to) {
  REAL("link", int, const char *, const char *);
  return under(AT_FDCWD, to) && decide(CREATE) == REFUSE ? -1 : real(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  REAL("linkat", int, int, const char *, int, const char *, int);
  return under(b, to) && decide(CREATE) == REFUSE ? -1 : real(a, from, b, to, flags);
}

int chmod(const char *path, mode_t p) {
  REAL("chmod", int, const char *, mode_t);
  return under(AT_FDCWD, path) && decide(CHANGE) == REFUSE ? -1 : real(path, p);
}
