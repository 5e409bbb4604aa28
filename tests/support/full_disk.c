/* Preloaded into a program: while the file that FULL_DISK names exists, files take 1,000 bytes more and then no byte. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int file, const void *bytes, size_t count) {
  static size_t left = 1000;
  const char *mark = getenv("FULL_DISK");
  struct stat info;
  if (mark != NULL && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && access(mark, F_OK) == 0) {
    if (left == 0) {
      errno = ENOSPC;
      return -1;
    }
    count = count < left ? count : left;
    left -= count;
  }
  return syscall(SYS_write, file, bytes, count);
}
