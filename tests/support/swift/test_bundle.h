/* A bundle of a folder as a linked model, for programs that test what apps have linked in. */
#ifndef STERNA_TEST_BUNDLE_H
#define STERNA_TEST_BUNDLE_H

/* The record that sterna_load_linked takes, or NULL. It is never freed. */
const void *bundle_linked(const char *directory, const char *model);

#endif
