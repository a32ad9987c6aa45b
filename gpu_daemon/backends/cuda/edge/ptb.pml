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
 * The second block that comes watches the flag, and takes none. The first one reads
 * it as long as it is the only one.
 *
 * Switches, each a mistake that must be found:
 *   TAKE_FIRST    a block is taken before the flag is read
 *   TWO_STEPS     the watcher reads the count, then ends the taking
 *   FIRST_WATCHES who may be alone takes no block
 *   NOT_CLEARED   what the blocks have left is not cleared behind a launch
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
byte stopped;
byte arrived;
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
bool all_ended;

#ifdef FIRST_WATCHES
#define WATCHER 0
#else
#define WATCHER 1
#endif

proctype Resident() {
  byte n;
  byte number;
  byte rank;
  bool is_last;
  atomic { rank = arrived; arrived++ }
  if
  :: rank == WATCHER ->
    if
    :: stop ->
#ifdef TWO_STEPS
      n = taken;
      taken = BLOCKS;
#else
      atomic { n = taken; taken = BLOCKS }
#endif
      stopped = n + 1
    :: first + taken >= BLOCKS
    fi;
    goto leave
  :: else
  fi;
  do
  ::
#ifdef TAKE_FIRST
    atomic { n = taken; taken++ }
    if :: rank == 0 && arrived == 1 -> if :: stop -> break :: else fi :: else fi;
#else
    if :: rank == 0 && arrived == 1 -> if :: stop -> break :: else fi :: else fi;
    atomic { n = taken; taken++ }
#endif
    number = first + n;
    if :: number >= BLOCKS -> break :: else fi;
    atomic { runs[number]++; assert(runs[number] == 1) }
    ran[number] = 1
  od;
leave:
  atomic { on_gpu--; left++; is_last = (left == RESIDENT) }
#ifdef FIRST_LEAVES
  is_last = (left == 1);
#endif
  if
  :: is_last ->
    n = (stopped != 0 -> stopped - 1 : taken);
#ifdef NOT_LIMITED
    ended = first + n;
#else
    ended = (first + n < BLOCKS -> first + n : BLOCKS);
#endif
#ifndef NOT_CLEARED
    taken = 0;
    stopped = 0;
    arrived = 0;
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

/* When nobody can go on. */
proctype Judge() {
  timeout;
  assert(all_ended)
}

init {
  byte i;
  run Urgent();
  run Judge();
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
  od;
  all_ended = true
}
