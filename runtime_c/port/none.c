/* For systems without files, libraries or threads: bundles are loaded by sterna_load_table. Compile everything with
 * -DSTERNA_PORT_NONE. A program that has a clock may replace this file to get times. */
#ifndef STERNA_PORT_NONE
#error "the whole library must be compiled with -DSTERNA_PORT_NONE"
#endif
#include "port.h"

#include <stdlib.h>

#include "no_files.h"

void *port_pages(size_t bytes) {
  return calloc(1, bytes);
}

void port_release_pages(void *memory, size_t bytes) {
  (void)bytes;
  free(memory);
}

uint64_t port_now(void) { return 0; }

bool port_start_thread(port_thread *thread, port_thread_main run, void *argument) {
  (void)thread;
  (void)run;
  (void)argument;
  return false;
}

void port_join_thread(port_thread thread) { (void)thread; }
void port_yield(void) {}
int port_processor(void) { return -1; }
void port_leave(int processor) { (void)processor; }

bool port_mutex_open(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  *mutex = *condition = *condition2 = 0;
  return true;
}

void port_mutex_close(port_mutex *mutex, port_condition *condition, port_condition *condition2) {
  (void)mutex;
  (void)condition;
  (void)condition2;
}

void port_lock(port_mutex *mutex) { (void)mutex; }
void port_unlock(port_mutex *mutex) { (void)mutex; }
void port_wait(port_condition *condition, port_mutex *mutex) {
  (void)condition;
  (void)mutex;
}
void port_wake_all(port_condition *condition) { (void)condition; }
