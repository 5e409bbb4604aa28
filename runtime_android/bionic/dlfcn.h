#ifndef STERNA_BIONIC_DLFCN_H
#define STERNA_BIONIC_DLFCN_H
#if defined(__LP64__)
#define RTLD_NOW 2
#else
#define RTLD_NOW 0
#endif
#define RTLD_LOCAL 0
void *dlopen(const char *path, int mode);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
char *dlerror(void);
#endif
