#ifndef STERNA_BIONIC_STAT_H
#define STERNA_BIONIC_STAT_H
#include <sys/types.h>

/* Only the mode and the size are read; the rest is in its place. */
#if defined(__aarch64__)
struct stat {
  uint64_t st_dev, st_ino;
  mode_t st_mode;
  uint32_t st_nlink, st_uid, st_gid;
  uint64_t st_rdev, pad1;
  int64_t st_size;
  uint64_t rest[9];
};
#elif defined(__x86_64__)
struct stat {
  uint64_t st_dev, st_ino, st_nlink;
  mode_t st_mode;
  uint32_t st_uid, st_gid, pad0;
  uint64_t st_rdev;
  int64_t st_size;
  uint64_t rest[11];
};
#else /* arm; x86, where 64-bit members have the same places as they are packed so */
struct stat {
  uint64_t st_dev __attribute__((packed, aligned(4)));
  unsigned char pad0[4];
  unsigned long short_ino;
  mode_t st_mode;
  uint32_t st_nlink, st_uid, st_gid;
  uint64_t st_rdev __attribute__((packed, aligned(4)));
  unsigned char pad3[4];
#if defined(__arm__)
  unsigned char pad4[4];
#endif
  int64_t st_size __attribute__((packed, aligned(4)));
  unsigned long rest[20];
};
#endif
#define S_ISREG(mode) (((mode) & 0170000u) == 0100000u)
int fstat(int descriptor, struct stat *info);
#endif
