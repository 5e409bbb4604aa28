/* dlopen for static programs, which have none: maps a shared library that needs nothing but itself. Kernel libraries are
 * such: no undefined symbol, no thread-local storage, relocations relative to where they lie. */
#define _GNU_SOURCE
#include <sys/types.h> /* first: by it musl calls dlsym otherwise where time_t has grown (32-bit ARM), here as elsewhere */

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if UINTPTR_MAX > 0xffffffffu
#define ELF(name) Elf64_##name
#define TYPE(info) ELF64_R_TYPE(info)
#else
#define ELF(name) Elf32_##name
#define TYPE(info) ELF32_R_TYPE(info)
#endif

#if defined(__x86_64__)
#define RELATIVE R_X86_64_RELATIVE
#elif defined(__riscv)
#define RELATIVE R_RISCV_RELATIVE
#elif defined(__i386__)
#define RELATIVE R_386_RELATIVE
#elif UINTPTR_MAX > 0xffffffffu
#define RELATIVE R_AARCH64_RELATIVE
#else
#define RELATIVE R_ARM_RELATIVE
#endif

enum { PAGE = 65536 };
static const char *reason;

char *dlerror(void) { return (char *)(uintptr_t)reason; }

int dlclose(void *library) {
  (void)library;
  return 0;
}

void *dlopen(const char *path, int mode) {
  ELF(Ehdr) header;
  ELF(Phdr) parts[16];
  (void)mode;
  reason = "a static program opens no library of the system";
  if (strchr(path, '/') == NULL) return NULL; /* it would be one of the folder that the program happens to be in */
  int file = open(path, O_RDONLY);
  reason = "not a library that can be mapped";
  if (file < 0 || read(file, &header, sizeof header) != (ssize_t)sizeof header || header.e_phnum > 16) return NULL;
  if (pread(file, parts, header.e_phnum * sizeof *parts, (off_t)header.e_phoff) < 0) return NULL;
  size_t end = 0;
  for (int i = 0; i < header.e_phnum; i++)
    if (parts[i].p_type == PT_LOAD && parts[i].p_vaddr + parts[i].p_memsz > end) end = parts[i].p_vaddr + parts[i].p_memsz;
  unsigned char *base = mmap(NULL, end + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  base += (PAGE - (uintptr_t)base % PAGE) % PAGE;
  const ELF(Dyn) *dynamic = NULL;
  for (int i = 0; i < header.e_phnum; i++) {
    if (parts[i].p_type == PT_LOAD && pread(file, base + parts[i].p_vaddr, parts[i].p_filesz, (off_t)parts[i].p_offset) < 0) return NULL;
    if (parts[i].p_type == PT_DYNAMIC) dynamic = (const ELF(Dyn) *)(base + parts[i].p_vaddr);
  }
  (void)close(file);
  uintptr_t table = 0, bytes = 0;
  for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_RELA || dynamic->d_tag == DT_REL) table = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_RELASZ || dynamic->d_tag == DT_RELSZ) bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_NEEDED || dynamic->d_tag == DT_JMPREL) return NULL;
  }
#if UINTPTR_MAX > 0xffffffffu
  for (const Elf64_Rela *r = (const Elf64_Rela *)(base + table); bytes >= sizeof *r; r++, bytes -= sizeof *r) {
    if (TYPE(r->r_info) != RELATIVE) return NULL;
    *(uint64_t *)(base + r->r_offset) = (uint64_t)(base + r->r_addend);
  }
#else
  for (const Elf32_Rel *r = (const Elf32_Rel *)(base + table); bytes >= sizeof *r; r++, bytes -= sizeof *r) {
    if (TYPE(r->r_info) != RELATIVE) return NULL;
    *(uint32_t *)(base + r->r_offset) += (uint32_t)base;
  }
#endif
  if (mprotect(base, end, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return NULL;
  __builtin___clear_cache((char *)base, (char *)base + end);
  return base;
}

void *dlsym(void *library, const char *name) {
  unsigned char *base = library;
  const ELF(Ehdr) *header = library;
  const ELF(Phdr) *parts = (const ELF(Phdr) *)(base + header->e_phoff);
  const ELF(Sym) *symbols = NULL;
  const char *strings = NULL;
  const uint32_t *hash = NULL; /* its second word is the number of symbols */
  for (int i = 0; i < header->e_phnum; i++)
    if (parts[i].p_type == PT_DYNAMIC)
      for (const ELF(Dyn) *d = (const ELF(Dyn) *)(base + parts[i].p_vaddr); d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) symbols = (const ELF(Sym) *)(base + d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB) strings = (const char *)(base + d->d_un.d_ptr);
        if (d->d_tag == DT_HASH) hash = (const uint32_t *)(base + d->d_un.d_ptr);
      }
  for (uint32_t i = 1; symbols != NULL && strings != NULL && hash != NULL && i < hash[1]; i++)
    if (strcmp(strings + symbols[i].st_name, name) == 0) return base + symbols[i].st_value;
  return NULL;
}
