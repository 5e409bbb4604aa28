#ifndef STERNA_BIONIC_AUXV_H
#define STERNA_BIONIC_AUXV_H
unsigned long getauxval(unsigned long type);
#endif
