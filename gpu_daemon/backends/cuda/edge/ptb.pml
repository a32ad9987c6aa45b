/*
 * Persistent blocks that take the blocks of a grid until the host wants the GPU
 * back (ptb_kernel.cuh; policy ptb). What is checked: ptb_checks.sh.
 *
 * A launch has RESIDENT blocks, a grid BLOCKS. The stop flag rises at any time, so
 * STOPS times in all: before a launch, in mid-run, or when all blocks are taken.
 * After each launch the host goes on with what is left. Each statement is one
 * access to memory that others read or write.
 *
 * Proved:
 *   1. every block runs exactly once, however often the launch is stopped;
 *   2. when a launch completes, its blocks have left, and what was taken has run;
 *   3. the launches end.
 *
 * Switches, each a mistake that must be found:
 *   TAKE_FIRST    a block is taken before the flag is read
 *   NOT_CLEARED   the count of taken blocks is not cleared behind a launch
 *   NOT_LIMITED   what is left is computed from a count beyond the grid
 *   FIRST_LEAVES  the first that leaves completes the launch
 *   STOP_IS_END   the host goes on when it has raised the flag
 */
#ifndef BLOCKS
#define BLOCKS 4
#endif
#ifndef RESIDENT
#define RESIDENT 2
#endif
#ifndef STOPS
#define STOPS 2
#endif

/* The GPU's. */
byte taken;
byte left;
/* The host's. */
bit stop;
byte ended;
byte completed;                 /* which launch */
byte launch;
byte first;

/* For the properties alone. */
byte runs[BLOCKS];
byte ran[BLOCKS];
byte on_gpu;

proctype Resident() {
  byte n;
  byte number;
  bool is_last;
  do
  ::
#ifdef TAKE_FIRST
    atomic { n = taken; taken++ }
    if :: stop -> break :: else fi;
#else
    if :: stop -> break :: else fi;
    atomic { n = taken; taken++ }
#endif
    number = first + n;
    if :: number >= BLOCKS -> break :: else fi;
    atomic { runs[number]++; assert(runs[number] == 1) }
    ran[number] = 1
  od;
  atomic { on_gpu--; left++; is_last = (left == RESIDENT) }
#ifdef FIRST_LEAVES
  is_last = (left == 1);
#endif
  if
  :: is_last ->
#ifdef NOT_LIMITED
    ended = first + taken;
#else
    ended = (first + taken < BLOCKS -> first + taken : BLOCKS);
#endif
#ifndef NOT_CLEARED
    taken = 0;
#endif
    left = 0;
    completed = launch
  :: else
  fi
}

proctype Urgent() {
  byte i;
  for (i : 1 .. STOPS) { stop = 1 }
}

init {
  byte i;
  run Urgent();
  do
  ::
    stop = 0;
    launch++;
    on_gpu = RESIDENT;
    for (i : 1 .. RESIDENT) { run Resident() }
#ifdef STOP_IS_END
    (completed == launch || stop);
    if
    :: completed != launch ->
      ended = (first + taken < BLOCKS -> first + taken : BLOCKS)
    :: else
    fi;
#else
    completed == launch;
#endif
    atomic {
      assert(on_gpu == 0);
      assert(ended <= BLOCKS);
      i = 0;
      do
      :: i < ended -> assert(ran[i] == 1); i++
      :: else -> break
      od
    }
    first = ended;
    if :: first == BLOCKS -> break :: else fi;
    /* Each is stopped once at most; without one it has run to its end. */
    assert(launch <= STOPS + 1)
  od
}
