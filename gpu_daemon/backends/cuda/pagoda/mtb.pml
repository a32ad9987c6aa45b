/*
 * An MTB places the thread blocks of its tasks (mtb_scheduler.h, mtb_executor.h,
 * warp_table.h). What is checked: mtb_checks.sh. How tasks get there is
 * task_table.pml's subject.
 *
 * TASKS tasks of BLOCKS thread blocks of WARPS warps each are released, one a row;
 * an MTB of EXECUTORS executor warps and BARRIERS barriers runs them. All warps of
 * a block meet at its barrier. The host may tell the MTB to leave at any time.
 * Lanes of the scheduler come one after another in any order of theirs and the
 * executors' steps. Each statement is one access to memory that others read or
 * write.
 *
 * `begun` here: the scheduler has taken the task. That its entry says so when the
 * first warp gets its executor, and no earlier, is in task_table.pml.
 *
 * Proved:
 *   1. every warp of a task that has begun runs once, whenever the MTB leaves;
 *   2. no two blocks have a barrier at the same time (nor shared memory, which is
 *      freed with it);
 *   3. an entry is freed when all its warps have ended, and then;
 *   4. without a command to leave, all tasks run; with it, all warps end.
 *
 * Switches, each a mistake that must be found. Of the paper's algorithms:
 *           LAST_NOT_ONE    (Alg. 1, line 41) any count but 0 is the last warp's
 *           BAR_OF_ENTRY    (line 39) the barrier is looked up in the task's entry
 *           NO_BLOCK_COUNT  (line 35) a block has no count of its warps: the first
 *                           that ends frees what the block has
 *           ROWS_FOR_WARPS  (Alg. 2, line 5) as many slots as rows
 *           TID_FOR_I       (lines 7, 9) looks at slot tid, writes slot i
 *           SIGN            (line 8) 0 warps left is one more
 *           READS_ON        (Alg. 1, lines 18, 25) the entry is read again when the
 *                           task's last warp is placed
 *   ours:
 *           LOOK_LATE       an executor looks at `leave` after `exec`
 */
#ifndef TASKS
#define TASKS 2
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef WARPS
#define WARPS 2
#endif
#ifndef EXECUTORS
#define EXECUTORS 3
#endif
#ifndef BARRIERS
#define BARRIERS 2
#endif
#define RECORDS (EXECUTORS + 1)
#define ROWS (EXECUTORS + 1)
#define NOBODY 99

/* Released rows; their states. */
bool released[TASKS];
bool freed[TASKS];

byte unfinished[TASKS];
short to_place;
bool leave;
bool command;
byte warps_left[RECORDS];
bit exec[EXECUTORS];
byte slot_row[EXECUTORS];
byte slot_record[EXECUTORS];
byte slot_barrier[EXECUTORS];
byte entry_barrier[TASKS];      /* BAR_OF_ENTRY */
bit returned[BARRIERS];         /* BAR_OF_ENTRY: by the last warp */

/* A barrier as hardware has it. */
byte arrived[BARRIERS];
bit turn[BARRIERS];

/* For the properties alone. */
byte owner[BARRIERS];
byte slot_block[EXECUTORS];
byte runs[TASKS * BLOCKS];
byte begun[TASKS];
byte gone;

#ifdef NO_BLOCK_COUNT
#define HAS_ENDED(r) (warps_left[r] < WARPS)
#else
#define HAS_ENDED(r) (warps_left[r] == 0)
#endif
#define ENDED(r) (r < RECORDS && in_use[r % RECORDS] && HAS_ENDED(r % RECORDS))

#ifdef SIGN
#define IS_ONE(before) ((before) >= 0)
#else
#define IS_ONE(before) ((before) > 0)
#endif
#ifdef ROWS_FOR_WARPS
#define SLOTS ROWS
#else
#define SLOTS EXECUTORS
#endif
#ifdef TID_FOR_I
#define LOOKED_AT(i) 0
#else
#define LOOKED_AT(i) (i)
#endif

/* Nobody but the scheduler writes a slot, and nobody reads it, while exec is 0. */
#define PLACE_IN(x) \
  if \
  :: atomic { IS_ONE(before) -> \
       assert(x < EXECUTORS && exec[x] == 0); \
       slot_row[x] = row; \
       slot_record[x] = r; \
       slot_barrier[x] = id; \
       slot_block[x] = row * BLOCKS + b; \
       exec[x] = 1 } \
  :: !(IS_ONE(before)) \
  fi;

proctype Scheduler() {
  bool in_use[RECORDS];
  byte barrier_of[RECORDS];
  bool taken[BARRIERS];
  byte row; byte b; byte r; byte id; byte i;
  short before;
again:
  if
  :: command -> goto left
  :: d_step { !command && released[0] -> row = 0 }
  :: d_step { !command && TASKS > 1 && released[TASKS - 1] -> row = TASKS - 1 }
  fi;
  d_step {
    released[row] = false;
    begun[row] = 1;
    unfinished[row] = BLOCKS * WARPS;
    b = 0
  };
  do
  :: b == BLOCKS ->
#ifdef READS_ON
     assert(!freed[row]); /* or it is another task's, with other blocks */
#endif
     break
  :: b < BLOCKS ->
provide:
     skip;
     /* What ended blocks have is freed. */
     d_step {
       r = 0;
       do
       :: r == RECORDS -> break
       :: r < RECORDS ->
          if
          :: in_use[r] && HAS_ENDED(r) ->
             in_use[r] = false;
#ifndef BAR_OF_ENTRY
             taken[barrier_of[r]] = false;
             owner[barrier_of[r]] = NOBODY
#endif
          :: else
          fi;
          r++
       od;
       r = 0;
#ifdef BAR_OF_ENTRY
       id = 0;
       do
       :: id == BARRIERS -> break
       :: id < BARRIERS ->
          if
          :: returned[id] -> returned[id] = 0; taken[id] = false
          :: else
          fi;
          id++
       od;
#endif
       id = 0;
       do
       :: id < BARRIERS && taken[id] -> id++
       :: else -> break
       od
     };
     if
     :: id == BARRIERS ->
        /* Looks again when that can help. */
#ifdef BAR_OF_ENTRY
        returned[0] || returned[BARRIERS - 1];
#else
        ENDED(0) || ENDED(1) || ENDED(2) || ENDED(3) || ENDED(4);
#endif
        goto provide
     :: id < BARRIERS
     fi;
     skip;
     d_step {
       do
       :: r < RECORDS && in_use[r] -> r++
       :: else -> break
       od;
       assert(r < RECORDS);
       taken[id] = true;
       owner[id] = row * BLOCKS + b;
       in_use[r] = true;
       barrier_of[r] = id;
       entry_barrier[row] = id;
       warps_left[r] = WARPS;
       to_place = WARPS
     };
     i = 0;
     do
     :: to_place <= 0 -> break
     :: to_place > 0 -> /* lane i */
        if
        :: atomic { i < SLOTS && exec[LOOKED_AT(i)] == 0 ->
             before = to_place; to_place = to_place - 1 };
           PLACE_IN(i)
#ifdef SIGN
           /* The next lane has found an executor in the same instruction. */
           if
           :: atomic { to_place == 0 && i + 1 < EXECUTORS && exec[i + 1] == 0 ->
                before = to_place; to_place = to_place - 1 };
              PLACE_IN(i + 1)
           :: else
           fi
#endif
        :: i >= SLOTS
        :: i < SLOTS && exec[LOOKED_AT(i)] == 1
        fi;
        i = i + 1;
        if
        :: i >= SLOTS ->
           i = 0;
           /* A round that can find somebody. */
           to_place <= 0 || exec[0] == 0 || exec[1 % EXECUTORS] == 0 ||
             exec[2 % EXECUTORS] == 0 || exec[3 % EXECUTORS] == 0
        :: i < SLOTS
        fi
     od;
     skip;
     d_step { b++; r = 0; id = 0; i = 0; before = 0 }
  od;
  b = 0;
  goto again;
left:
  leave = true
}

#ifdef LAST_NOT_ONE
#define LAST(old) ((old) != 0)
#else
#define LAST(old) ((old) == 1)
#endif

inline Meet() {
  d_step {
    assert(owner[id] == uid);
    mine = turn[id];
    arrived[id]++;
    if
    :: arrived[id] == WARPS -> arrived[id] = 0; turn[id] = 1 - turn[id]
    :: else
    fi
  };
  turn[id] != mine
}

proctype Executor(byte x) {
  byte row; byte record; byte id; byte uid; byte old; bit mine;
  bool l;
  do
  ::
#ifndef LOOK_LATE
     l = leave;
#endif
     if
     :: exec[x] == 1 ->
        d_step {
          row = slot_row[x];
          record = slot_record[x];
          id = slot_barrier[x];
          uid = slot_block[x]
        };
        Meet();
        d_step { runs[uid]++; assert(runs[uid] <= WARPS && !freed[row]) };
        Meet();
        assert(owner[id] == uid); /* its shared memory, to the end */
        d_step { old = warps_left[record]; warps_left[record] = old - 1 };
#ifdef BAR_OF_ENTRY
        if
        :: old == 1 -> returned[entry_barrier[row]] = 1
        :: else
        fi;
        skip;
#endif
        d_step { old = unfinished[row]; unfinished[row] = old - 1 };
        if
        :: LAST(old) -> d_step { assert(!freed[row]); freed[row] = true }
        :: else
        fi;
        d_step { exec[x] = 0; row = 0; record = 0; id = 0; uid = 0; old = 0; mine = 0 }
     :: exec[x] == 0 ->
#ifdef LOOK_LATE
        l = leave;
#endif
        if
        :: l -> break
        :: !l -> exec[x] == 1 || leave
        fi
     fi
  od;
  gone++
}

proctype Host() {
  if
  :: command = true
  :: true
  fi
}

/* When nothing moves any more. */
proctype Judge() {
  byte n;
  timeout;
  assert(gone == (command -> EXECUTORS : 0));
  for (n : 0 .. TASKS * BLOCKS - 1) {
    assert(runs[n] == (begun[n / BLOCKS] -> WARPS : 0))
  }
  for (n : 0 .. TASKS - 1) {
    assert(freed[n] == begun[n]);
    assert(begun[n] || command)
  }
}

init {
  byte i;
  atomic {
    for (i : 0 .. TASKS - 1) {
      released[i] = true
    }
    for (i : 0 .. BARRIERS - 1) {
      owner[i] = NOBODY
    }
    run Scheduler();
    for (i : 0 .. EXECUTORS - 1) {
      run Executor(i)
    }
    run Host();
    run Judge()
  }
}
