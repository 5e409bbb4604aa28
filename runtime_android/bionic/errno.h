#ifndef STERNA_BIONIC_ERRNO_H
#define STERNA_BIONIC_ERRNO_H
int *__errno(void);
#define errno (*__errno())
#endif
