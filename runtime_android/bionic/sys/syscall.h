#ifndef STERNA_BIONIC_SYSCALL_H
#define STERNA_BIONIC_SYSCALL_H
#if defined(__x86_64__)
#define SYS_arch_prctl 158
#endif
#endif
