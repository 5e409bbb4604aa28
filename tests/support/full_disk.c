/* Preloaded into a program: while the file that FULL_DISK names exists, files take 1,000 bytes more and then no byte.
 * The disk has room for one file: none is written while the folder FULL_DISK_FOLDER has one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int has_a_file(const char *folder) {
  DIR *list = opendir(folder);
  struct dirent *entry;
  int found = 0;
  while (list != NULL && (entry = readdir(list)) != NULL) found |= entry->d_name[0] != '.';
  if (list != NULL) closedir(list);
  return found;
}

ssize_t write(int file, const void *bytes, size_t count) {
  static size_t left = 1000;
  const char *mark = getenv("FULL_DISK");
  struct stat info;
  const char *folder = getenv("FULL_DISK_FOLDER");
  if (folder != NULL && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && has_a_file(folder)) {
    errno = ENOSPC;
    return -1;
  }
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
