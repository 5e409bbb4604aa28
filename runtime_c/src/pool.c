/* The thread pool. The caller of sterna_run is worker 0; the others wait for its jobs.
 *
 * A job is cut into at most 32 chunks of tasks. One 64-bit word, `ticket`, holds the number of the current job in its
 * upper half and, in its lower half, a bit for every chunk that somebody has taken. A worker takes chunks by a
 * compare-and-swap on the whole word. So a worker that comes late, with the ticket of a job that is over, cannot take
 * anything, and the caller does not wait for workers which never came: a job is over when its tasks are done, however
 * many workers took part. That keeps short nodes short when a worker sleeps.
 *
 * Every worker has chunks of its own, the same in every run: its cache still holds their weights. It takes half of what
 * is left of those at a time, then helps others from their end.
 *
 * A job lies in one of two slots by its number's parity, beside the ticket: to publish one costs the transfer of a cache
 * line and needs no word to be taken back, as whoever reads a slot that is written again holds a ticket that is over.
 *
 * Idle workers spin for some microseconds, since the next node usually follows at once, then sleep. */
#include "internal.h"

#define SPIN_NANOSECONDS 30000u
#define PAUSES_PER_LOOK 64u /* between two looks at the clock */
#define MOST_CHUNKS 32u
#define LINE 64u

typedef struct worker {
  pool *pool;
  uint32_t index;
  port_thread thread;
} worker;

typedef struct slot {
  void *volatile job; /* a `const node *` */
  volatile uint32_t units;
} slot;

struct pool { /* starts on a cache line; each group of words that several threads write has one of its own */
  volatile uint64_t ticket;
  slot slots[2];
  char line0[LINE - sizeof(uint64_t) - 2 * sizeof(slot)];
  volatile uint32_t done; /* tasks, of all jobs so far */
  volatile uint32_t status; /* of the job: 0, or what a kernel returned */
  char line1[LINE - 2 * sizeof(uint32_t)];
  volatile uint32_t barrier_waiting, barrier_round;
  char line2[LINE - 2 * sizeof(uint32_t)];
  volatile uint32_t wanted; /* what `done` is when the current job is over */
  volatile uint32_t sleepers, caller_sleeps, stop;
  volatile uint32_t caller; /* the processor that it was on when it last woke the others */
  uint32_t n_workers, n_threads;
  uint32_t team; /* workers that take part in a job */
  uint8_t *scratch;
  size_t scratch_bytes;
  worker *workers;
  port_mutex mutex;
  port_condition work, finished;
};

static uint32_t job_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }

/* `count` ones from bit `first`; both together at most 32. */
static uint32_t bits(uint32_t first, uint32_t count) { return (uint32_t)((((uint64_t)1 << count) - 1) << first); }

/* What begins the share of a worker, or a chunk's share of the units. */
static uint32_t part(uint32_t whole, uint32_t index, uint32_t parts) {
  return (uint32_t)((uint64_t)whole * index / parts);
}

void pool_no_barrier(void *unused) { (void)unused; }

/* Every worker of the call comes here, so the last one to come opens it. The wait is within a running node, and short,
 * except that a worker may still have to be woken or scheduled: hence the yields. */
static void barrier(void *argument) {
  pool *p = argument;
  uint32_t round = atomic_load32(&p->barrier_round);
  if (atomic_add32(&p->barrier_waiting, 1) == p->team) {
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

/* Runs the units first <= u < last: tasks, or, for a kernel with barriers, whole shares of the tasks, one per worker. */
static void run_units(pool *p, const node *job, uint32_t self, uint32_t first, uint32_t last) {
  sterna_call call = job->call;
  call.n_workers = p->team;
  if (job->needs_barrier) {
    self = first;
    call.barrier = barrier;
    call.pool = p;
    first = part(job->tasks, self, p->team);
    last = part(job->tasks, self + 1, p->team);
  } else if (call.scratch != NULL) {
    call.scratch = p->scratch + p->scratch_bytes * self;
  }
  call.worker = self;
  int32_t status = job->function(&call, first, last);
  if (status < 0) atomic_store32(&p->status, (uint32_t)status);
}

static void wake(pool *p, port_condition *condition) {
  port_lock(&p->mutex);
  port_wake_all(condition);
  port_unlock(&p->mutex);
}

/* The first of the neighbouring chunks to take of those that are free, and how many: half of the worker's own, else the
 * last one of all. */
static uint32_t choose(uint32_t free, uint32_t chunks, uint32_t self, uint32_t workers, uint32_t *count) {
  uint32_t from = part(chunks, self, workers), to = part(chunks, self + 1, workers);
  *count = 1;
  while (from < to && (free >> from & 1) == 0) from++;
  if (from < to)
    while (2 * *count < to - from && (free >> (from + *count) & 1) != 0) ++*count;
  else
    for (from = chunks - 1; (free >> from & 1) == 0;) from--;
  return from;
}

/* Takes and runs what there is to take. Returns the ticket on which there was nothing. */
static uint64_t work(pool *p, uint32_t self) {
  for (;;) {
    uint64_t ticket = atomic_load64(&p->ticket);
    /* This may already be a later job than the ticket's: then the swap below fails. */
    slot *current = &p->slots[job_of(ticket) & 1];
    const node *job = atomic_load_pointer(&current->job);
    uint32_t units = atomic_load32(&current->units);
    uint32_t chunks = units < MOST_CHUNKS ? units : MOST_CHUNKS;
    uint32_t free = bits(0, chunks) & ~(uint32_t)ticket;
    if (free == 0) return ticket;
    uint32_t count, chunk = choose(free, chunks, self, p->n_workers, &count);
    if (!atomic_swap64(&p->ticket, ticket, ticket | bits(chunk, count))) continue;
    uint32_t first = part(units, chunk, chunks), last = part(units, chunk + count, chunks);
    run_units(p, job, self, first, last);
    uint32_t done = atomic_add32(&p->done, last - first);
    if (done == atomic_load32(&p->wanted) && atomic_load32(&p->caller_sleeps) != 0) wake(p, &p->finished);
  }
}

/* Both sides of the pool wait a moment in this way and then sleep: they announce it, look once more, and sleep, while the
 * other side writes first and then looks for sleepers. Sequential consistency makes one of the two see the other. */
static bool spin(pool *p, bool for_job, uint32_t number) {
  uint64_t start = port_now();
  do {
    for (uint32_t i = 0; i < PAUSES_PER_LOOK; i++) {
      /* Until there is another job than that, or so many tasks are done. */
      if (for_job ? job_of(atomic_load64(&p->ticket)) != number : atomic_load32(&p->done) == number) return true;
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
    if (spin(p, true, seen)) continue;
    port_lock(&p->mutex);
    (void)atomic_add32(&p->sleepers, 1);
    while (job_of(atomic_load64(&p->ticket)) == seen && atomic_load32(&p->stop) == 0) port_wait(&p->work, &p->mutex);
    (void)atomic_add32(&p->sleepers, UINT32_MAX);
    port_unlock(&p->mutex);
    /* It may find itself on the caller's processor, and wait for it there time after time though others are idle: to
     * Linux in a virtual machine, an idle processor looks like one that the host has taken away. */
    port_leave((int)atomic_load32(&p->caller));
  }
  return 0;
}

static void publish(pool *p, const node *node, uint32_t units) {
  uint32_t number = job_of(atomic_load64(&p->ticket)) + 1;
  slot *next = &p->slots[number & 1];
  atomic_store_pointer(&next->job, (void *)(uintptr_t)node);
  atomic_store32(&next->units, units);
  atomic_store64(&p->ticket, (uint64_t)number << 32);
  if (atomic_load32(&p->sleepers) == 0) return;
  atomic_store32(&p->caller, (uint32_t)port_processor());
  wake(p, &p->work);
}

int32_t pool_run(pool *p, const node *node) {
  uint32_t units = node->needs_barrier ? p->team : node->tasks;
  uint32_t wanted = atomic_load32(&p->done) + units;
  atomic_store32(&p->wanted, wanted);
  publish(p, node, units);
  (void)work(p, 0);
  if (!spin(p, false, wanted)) {
    port_lock(&p->mutex);
    atomic_store32(&p->caller_sleeps, 1);
    while (atomic_load32(&p->done) != wanted) port_wait(&p->finished, &p->mutex);
    atomic_store32(&p->caller_sleeps, 0);
    port_unlock(&p->mutex);
  }
  uint32_t status = atomic_load32(&p->status);
  if (status != 0) atomic_store32(&p->status, 0);
  return (int32_t)status;
}

sterna_status pool_open(heap *heap, uint32_t workers, uint8_t *scratch, size_t scratch_bytes, pool **out,
                        sterna_error *error) {
  *out = NULL;
  pool *p = heap_take_aligned(heap, sizeof *p);
  worker *list = heap_take(heap, workers, sizeof *list);
  if (p == NULL || list == NULL || !port_mutex_open(&p->mutex, &p->work, &p->finished))
    return fail(error, STERNA_RESOURCES, "out of memory for %u workers", (unsigned)workers);
  p->n_workers = workers;
  p->team = workers < MOST_CHUNKS ? workers : MOST_CHUNKS;
  p->workers = list;
  p->scratch = scratch;
  p->scratch_bytes = scratch_bytes;
  for (uint32_t i = 1; i < workers; i++) {
    list[i].pool = p;
    list[i].index = i;
    if (!port_start_thread(&list[i].thread, worker_main, &list[i])) {
      pool_close(p);
      return fail(error, STERNA_RESOURCES, "%u threads were asked for; the system gave %u", (unsigned)workers, (unsigned)i);
    }
    p->n_threads = i;
  }
  *out = p;
  return STERNA_OK;
}

void pool_close(pool *p) {
  if (p == NULL) return;
  atomic_store32(&p->stop, 1);
  publish(p, NULL, 0);
  for (uint32_t i = 1; i <= p->n_threads; i++) port_join_thread(p->workers[i].thread);
  port_mutex_close(&p->mutex, &p->work, &p->finished);
}
