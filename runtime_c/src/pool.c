/* The thread pool. The caller of sterna_run is worker 0; the others wait for its jobs.
 *
 * One 64-bit word, `ticket`, holds the number of the current job in its upper half and the next task that nobody has taken
 * in its lower half. A worker takes tasks by a compare-and-swap on the whole word. So a worker that comes late, with the
 * ticket of a job that is over, cannot take anything, and the caller need not wait for workers which never came: a job
 * is over when its tasks are done, however many workers took part. That keeps short nodes short when a worker sleeps.
 *
 * Idle workers spin for some microseconds, since the next node usually follows at once, then sleep. */
#include "internal.h"

#define SPIN_NANOSECONDS 30000u
#define PAUSES_PER_LOOK 64u /* between two looks at the clock */
#define CHUNKS_PER_WORKER 4u
#define LINE 64u

typedef struct worker {
  pool *pool;
  uint32_t index;
  port_thread thread;
} worker;

struct pool {
  volatile uint64_t ticket;
  char line0[LINE - sizeof(uint64_t)]; /* each of the words that many threads write has a cache line of its own */
  volatile uint32_t done; /* tasks of the current job */
  char line1[LINE - sizeof(uint32_t)];
  void *volatile job; /* a `const node *` */
  volatile uint32_t units; /* of the job: a late worker may look when the node has other tasks again */
  volatile uint32_t status; /* of the job: 0, or what a kernel returned */
  volatile uint32_t sleepers, caller_sleeps, stop;
  char line2[LINE];
  volatile uint32_t barrier_waiting, barrier_round;
  uint32_t n_workers, n_threads;
  uint8_t *scratch;
  size_t scratch_bytes;
  worker *workers;
  port_mutex mutex;
  port_condition work, finished;
};

static uint32_t job_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }
static uint32_t task_of(uint64_t ticket) { return (uint32_t)ticket; }

void pool_no_barrier(void *unused) { (void)unused; }

/* Every worker of the call comes here, so the last one to come opens it. The wait is within a running node, and short,
 * except that a worker may still have to be woken or scheduled: hence the yields. */
static void barrier(void *argument) {
  pool *p = argument;
  uint32_t round = atomic_load32(&p->barrier_round);
  if (atomic_add32(&p->barrier_waiting, 1) == p->n_workers) {
    atomic_store32(&p->barrier_waiting, 0);
    atomic_store32(&p->barrier_round, round + 1);
    return;
  }
  for (uint32_t spins = 0; atomic_load32(&p->barrier_round) == round; spins++) {
    if (spins < 2000)
      port_pause();
    else
      port_yield();
  }
}

/* Runs `count` units from `first`: tasks, or, for a kernel with barriers, whole shares of the tasks, one per worker. */
static void run_units(pool *p, const node *job, uint32_t self, uint32_t first, uint32_t count) {
  sterna_call call = job->call;
  call.n_workers = p->n_workers;
  uint32_t last = first + count;
  if (job->needs_barrier) {
    self = first;
    call.barrier = barrier;
    call.pool = p;
    first = (uint32_t)((uint64_t)job->tasks * self / p->n_workers);
    last = (uint32_t)((uint64_t)job->tasks * (self + 1) / p->n_workers);
  }
  call.worker = self;
  if (call.scratch != NULL) call.scratch = p->scratch + p->scratch_bytes * self;
  int32_t status = job->function(&call, first, last);
  if (status < 0) atomic_store32(&p->status, (uint32_t)status);
}

/* Takes and runs what there is to take. Returns the ticket on which there was nothing. */
static uint64_t work(pool *p, uint32_t self) {
  for (;;) {
    uint64_t ticket = atomic_load64(&p->ticket);
    /* This may already be the job after the ticket's: then the swap below fails. */
    const node *job = atomic_load_pointer(&p->job);
    if (job == NULL) return ticket;
    uint32_t units = atomic_load32(&p->units);
    uint32_t first = task_of(ticket);
    if (first >= units) return ticket;
    uint32_t count = job->needs_barrier ? 1 : units / (p->n_workers * CHUNKS_PER_WORKER);
    if (count == 0) count = 1;
    if (count > units - first) count = units - first;
    if (!atomic_swap64(&p->ticket, ticket, ticket + count)) continue;
    run_units(p, job, self, first, count);
    if (atomic_add32(&p->done, count) == units && atomic_load32(&p->caller_sleeps) != 0) {
      port_lock(&p->mutex);
      port_wake_all(&p->finished);
      port_unlock(&p->mutex);
    }
  }
}

/* Both sides of the pool wait a moment in this way and then sleep: they announce it, look once more, and sleep, while the
 * other side writes first and then looks for sleepers. Sequential consistency makes one of the two see the other. */
static bool spin_until_new_job(pool *p, uint32_t seen) {
  uint64_t start = port_now();
  do {
    for (uint32_t i = 0; i < PAUSES_PER_LOOK; i++) {
      if (job_of(atomic_load64(&p->ticket)) != seen) return true;
      port_pause();
    }
  } while (port_now() - start < SPIN_NANOSECONDS);
  return false;
}

static bool spin_until_done(pool *p, uint32_t units) {
  uint64_t start = port_now();
  do {
    for (uint32_t i = 0; i < PAUSES_PER_LOOK; i++) {
      if (atomic_load32(&p->done) == units) return true;
      port_pause();
    }
  } while (port_now() - start < SPIN_NANOSECONDS);
  return false;
}

static PORT_THREAD_MAIN(worker_main) {
  worker *self = argument;
  pool *p = self->pool;
  while (atomic_load32(&p->stop) == 0) {
    uint32_t seen = job_of(work(p, self->index));
    if (spin_until_new_job(p, seen)) continue;
    port_lock(&p->mutex);
    (void)atomic_add32(&p->sleepers, 1);
    while (job_of(atomic_load64(&p->ticket)) == seen && atomic_load32(&p->stop) == 0) port_wait(&p->work, &p->mutex);
    (void)atomic_add32(&p->sleepers, UINT32_MAX);
    port_unlock(&p->mutex);
  }
  return 0;
}

static void publish(pool *p) {
  uint32_t number = job_of(atomic_load64(&p->ticket)) + 1;
  atomic_store64(&p->ticket, (uint64_t)number << 32);
  if (atomic_load32(&p->sleepers) == 0) return;
  port_lock(&p->mutex);
  port_wake_all(&p->work);
  port_unlock(&p->mutex);
}

int32_t pool_run(pool *p, const node *node) {
  uint32_t units = node->needs_barrier ? p->n_workers : node->tasks;
  atomic_store32(&p->status, 0);
  atomic_store32(&p->done, 0);
  /* A ticket of the job before has no task left below any number of tasks: nobody can take one until publish(). */
  atomic_store64(&p->ticket, atomic_load64(&p->ticket) | UINT32_MAX);
  atomic_store_pointer(&p->job, (void *)(uintptr_t)node);
  atomic_store32(&p->units, units);
  publish(p);
  (void)work(p, 0);
  if (!spin_until_done(p, units)) {
    port_lock(&p->mutex);
    atomic_store32(&p->caller_sleeps, 1);
    while (atomic_load32(&p->done) != units) port_wait(&p->finished, &p->mutex);
    atomic_store32(&p->caller_sleeps, 0);
    port_unlock(&p->mutex);
  }
  return (int32_t)atomic_load32(&p->status);
}

sterna_status pool_open(heap *heap, uint32_t workers, uint8_t *scratch, size_t scratch_bytes, pool **out,
                        sterna_error *error) {
  *out = NULL;
  pool *p = heap_take_aligned(heap, sizeof *p);
  worker *list = heap_take(heap, workers, sizeof *list);
  if (p == NULL || list == NULL || !port_mutex_open(&p->mutex, &p->work, &p->finished))
    return fail(error, STERNA_RESOURCES, "out of memory for %u workers", (unsigned)workers);
  p->n_workers = workers;
  p->workers = list;
  p->scratch = scratch;
  p->scratch_bytes = scratch_bytes;
  for (uint32_t i = 1; i < workers; i++) {
    list[i].pool = p;
    list[i].index = i;
    if (!port_start_thread(&list[i].thread, worker_main, &list[i])) {
      pool_close(p);
      return fail(error, STERNA_RESOURCES, "wanted %u threads; the system gave %u", (unsigned)workers, (unsigned)i);
    }
    p->n_threads = i;
  }
  *out = p;
  return STERNA_OK;
}

void pool_close(pool *p) {
  if (p == NULL) return;
  atomic_store32(&p->stop, 1);
  atomic_store_pointer(&p->job, NULL);
  publish(p);
  for (uint32_t i = 1; i <= p->n_threads; i++) port_join_thread(p->workers[i].thread);
  port_mutex_close(&p->mutex, &p->work, &p->finished);
}
