/*
 * The TaskTable between the thread that spawns tasks and the scheduler warps
 * (task_table.h, mtb_scheduler.h, task_spawner.h). What is checked:
 * task_table_checks.sh. How an MTB places a task's blocks is mtb.pml's subject;
 * here a task is WARPS warps that EXECUTORS executor warps of its MTB run.
 *
 * TASKS tasks are spawned into a table of COLUMNS x ROWS entries, each into any
 * free entry. Copies to the GPU end one after another, but the words of one copy
 * arrive in any order. The spawner may find at any time that the gap is long
 * enough for an empty update, and that the table must be copied back. Each
 * statement is one access to memory that others read or write; a state (ready and
 * sched) is one word, which a copy may nevertheless tear.
 *
 * Proved:
 *   1. a warp of a task runs when the task's entry is whole, and only then;
 *   2. no warp runs twice;
 *   3. every task ends, its entry is free again, and the spawner sees that;
 *   4. with STUCK, task 1 never ends: tasks in other columns do;
 *   5. a task's state becomes (1, 0), it runs, when an executor is free for it:
 *      while it waits for the first one it is still released.
 *
 * Switches: MAPPED  entries are written by stores: data, then the state
 *   each a mistake that must be found. Of the paper's Algorithm 1:
 *           LINE_6          takes `ready` 1 for a predecessor's id
 *           NOT_COPIED      the successor never becomes (-1, 0)
 *           LAST_NOT_ONE    any count but 0 is the last warp's (line 41)
 *   left open by the paper's text:
 *           NO_EMPTY        no empty update: the last task waits for ever
 *           NO_RESTART      after it, the next task names the last one still
 *           BLIND           the empty update does not look for (-1, 0)
 *           SCHED_ALONE     a task starts by `sched`, whatever `ready` says
 *           TWO_STREAMS     copies overtake each other
 *           BACK_OVERTAKES  so does the copy back
 *           HEAD_OF_LINE    a scheduler warp that waits for executors serves no
 *                           successor
 *           RUNS_EARLY      a task is said to run when its scheduler has taken it
 *           RUNS_LATE       and when a warp of it has its executor
 *           FLAG_FIRST      (MAPPED) the state is stored before the data
 */
#ifndef COLUMNS
#define COLUMNS 2
#endif
#ifndef ROWS
#define ROWS 2
#endif
#ifndef TASKS
#define TASKS 3
#endif
#ifndef EXECUTORS
#define EXECUTORS 1
#endif
#ifndef WARPS
#define WARPS 1
#endif

#define ENTRIES (COLUMNS * ROWS)
#define NONE 99
#define COPIED (-1)

#define ENTRY 1
#define RELEASE 2

/* The GPU's table. */
short ready[ENTRIES];
bit sched[ENTRIES];
byte data[ENTRIES];             /* the task whose parameters are there */

/* An MTB's shared memory. */
byte unfinished[ENTRIES];
byte slot[COLUMNS * EXECUTORS];
bit exec[COLUMNS * EXECUTORS];

/* On their way to the GPU, in order. */
chan copies = [2] of { byte, byte, byte, short };
byte in_flight;

/* For the properties alone. */
byte expected[ENTRIES];
byte runs[TASKS + 1];
byte home[TASKS + 1];
bool has_spawned;

inline Free(e) {
  d_step { ready[e] = 0; sched[e] = 0 }
}

/* One copy: its words arrive in any order. */
proctype Engine() {
  byte kind; byte e; byte task; short r;
  bit has_data; bit has_ready; bit has_sched;
end:
  do
  :: copies?kind, e, task, r ->
     has_data = (kind == RELEASE);
     has_ready = 0;
     has_sched = 0;
     do
     :: !has_data -> data[e] = task; has_data = 1
     :: !has_ready -> ready[e] = r; has_ready = 1
     :: !has_sched -> sched[e] = (kind == RELEASE); has_sched = 1
     :: has_data && has_ready && has_sched -> break
     od;
     in_flight--;
     task = 0; e = 0; kind = 0; r = 0
  od
}

#ifdef BACK_OVERTAKES
#define ARRIVED true
#else
#define ARRIVED (in_flight == 0)
#endif

/* Entry i is free, as far as the spawner knows. */
#define TAKE(i) \
  :: atomic { n <= TASKS && i < ENTRIES && !busy[i % ENTRIES] -> e = i % ENTRIES }; \
     goto spawn
#define FREED(i) (i < ENTRIES && busy[i % ENTRIES] && ready[i % ENTRIES] == 0)

proctype Spawner() {
  bool busy[ENTRIES];
  byte last = NONE;             /* has no successor yet */
  byte named = NONE;            /* what the next task names */
  byte n = 1;
  byte e;
again:
  do
  TAKE(0)
  TAKE(1)
  TAKE(2)
  TAKE(3)
  /* A copy back, whenever it can tell something new; not of one moment. */
  :: n <= TASKS && ARRIVED && (FREED(0) || FREED(1) || FREED(2) || FREED(3)) ->
     e = 0;
     do
     :: e < ENTRIES -> busy[e] = busy[e] && (ready[e] != 0); e++
     :: e == ENTRIES -> break
     od;
     e = 0
#ifndef NO_EMPTY
#ifdef BLIND
  :: last != NONE ->
#else
  :: last != NONE && in_flight == 0 && ready[last] == COPIED && sched[last] == 0 ->
#endif
     in_flight++;
     copies!RELEASE, last, 0, 1;
     last = NONE;
#ifndef NO_RESTART
     named = NONE
#endif
#endif
  :: n > TASKS && last == NONE -> break
  od;
  has_spawned = true;
  goto done;

spawn:
  busy[e] = true;
  d_step { expected[e] = n; home[n] = e / ROWS };
#ifdef MAPPED
#ifdef FLAG_FIRST
  d_step { ready[e] = 1; sched[e] = 1 };
  data[e] = n;
#else
  data[e] = n;
  d_step { ready[e] = 1; sched[e] = 1 };
#endif
#else
  in_flight++;
  copies!ENTRY, e, n, (named == NONE -> COPIED : named + 2);
  last = e;
  named = e;
#endif
  n++;
  e = 0;
  goto again;
done:
  skip
}

#define PLACING (placing != NONE)
#ifdef HEAD_OF_LINE
#define MAY_SERVE (!PLACING)
#else
#define MAY_SERVE true
#endif
#ifdef LINE_6
#define NAMES_ONE(r) ((r) > 0)
#else
#define NAMES_ONE(r) ((r) > 1)
#endif
#ifdef SCHED_ALONE
#define RELEASED(e) (sched[e] == 1)
#else
#define RELEASED(e) (ready[e] == 1 && sched[e] == 1)
#endif

/* Whether the entry's predecessor waits for it. Looked at in one step, and again
   later if not. */
#define PREVIOUS(e) (ready[e] - 2)
#define CAN_SERVE(e) \
  (NAMES_ONE(ready[e]) && (ready[e] < 2 || \
   (ready[PREVIOUS(e)] == COPIED && sched[PREVIOUS(e)] == 0)))
#define SERVE(r) \
  :: atomic { MAY_SERVE && r < ROWS && CAN_SERVE(c * ROWS + r % ROWS) -> \
       e = c * ROWS + r; assert(ready[e] > 1); p = PREVIOUS(e) }; \
     goto serve
#define BEGIN(r) \
  :: atomic { !PLACING && r < ROWS && RELEASED(c * ROWS + r % ROWS) -> \
       placing = c * ROWS + r }; \
     goto begin
#define PLACE(i) \
  :: atomic { PLACING && i < EXECUTORS && exec[c * EXECUTORS + i % EXECUTORS] == 0 -> \
       x = c * EXECUTORS + i }; \
     goto place

/* EXECUTORS is 1 or 2. */
inline Runs() {
  d_step {
    assert(exec[c * EXECUTORS] == 0 || exec[c * EXECUTORS + EXECUTORS - 1] == 0);
    ready[placing] = 1;
    sched[placing] = 0
  }
}

/* A row's turn comes in any order, which covers every order of looking. */
proctype Scheduler(byte c) {
  byte e;
  byte p;
  byte placing = NONE;
  byte left;
  byte x;
again:
  if
  SERVE(0)
  SERVE(1)
  BEGIN(0)
  BEGIN(1)
  PLACE(0)
  PLACE(1)
  fi;
serve:
  skip;
  d_step { ready[p] = 1; sched[p] = 1 };
#ifndef NOT_COPIED
  ready[e] = COPIED;
#endif
  e = 0;
  p = 0;
  goto again;
begin:
#ifdef RUNS_EARLY
  Runs();
#endif
  unfinished[placing] = WARPS;
  left = WARPS;
  goto again;
place:
#if !defined(RUNS_LATE) && !defined(RUNS_EARLY)
  if
  :: left == WARPS -> Runs()
  :: else
  fi;
#endif
  slot[x] = placing;
  exec[x] = 1;
#ifdef RUNS_LATE
  if
  :: left == WARPS -> Runs()
  :: else
  fi;
#endif
  x = 0;
  left--;
  if
  :: left == 0 -> placing = NONE
  :: left > 0
  fi;
  goto again
}

#ifdef LAST_NOT_ONE
#define LAST(old) ((old) != 0)
#else
#define LAST(old) ((old) == 1)
#endif

proctype Executor(byte x) {
  byte e; byte task; byte old;
end:
  do
  :: exec[x] == 1 ->
     e = slot[x];
     task = data[e];
     d_step {
       assert(task == expected[e]);
       runs[task]++;
       assert(runs[task] <= WARPS)
     };
#ifdef STUCK
     task != 1;
#endif
     assert(data[e] == task);   /* the arguments, to the end */
     atomic { old = unfinished[e]; unfinished[e] = old - 1 };
     if
     :: LAST(old) -> Free(e)
     :: else
     fi;
     exec[x] = 0;
     e = 0; task = 0; old = 0
  od
}

/* When nothing moves any more. */
proctype Judge() {
  byte n;
  timeout;
#ifdef STUCK
  for (n : 1 .. TASKS) {
    assert(runs[n] == WARPS || home[n] == home[1])
  }
#else
  assert(has_spawned);
  for (n : 1 .. TASKS) {
    assert(runs[n] == WARPS)
  }
  for (n : 0 .. ENTRIES - 1) {
    assert(ready[n] == 0 && sched[n] == 0)
  }
#endif
}

init {
  byte i;
  atomic {
    run Engine();
#ifdef TWO_STREAMS
    run Engine();
#endif
    for (i : 0 .. COLUMNS - 1) {
      run Scheduler(i)
    }
    for (i : 0 .. COLUMNS * EXECUTORS - 1) {
      run Executor(i)
    }
    run Spawner();
    run Judge()
  }
}
