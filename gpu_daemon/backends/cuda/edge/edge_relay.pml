/*
 * The relay of the resident dispatchers (edge_dispatch.h): token, heads, budget,
 * tail relaunch, halt and leave. What is checked: edge_relay_checks.sh.
 *
 * DISPATCHERS dispatchers of EVENT_WARPS event warps each serve one doorbell that
 * is rung EVENTS times; an execution may launch BUDGET events; any launch may
 * find its exec busy; event INLINE is run by its event warp; the host may halt, leave, or both, at any time. Each
 * statement is one access to memory that others read or write.
 *
 * Proved:
 *   1. no event is launched twice;
 *   2. every ring is launched, unless the host stopped it first;
 *   3. nothing is launched once the halt is acknowledged, and it is
 *      acknowledged whatever kernels do;
 *   4. after leave, all dispatchers end;
 *   5. somebody is always up, or will be without anybody's help (to carry out a
 *      trap), until leave.
 *
 * Switches: STUCK       kernels may never end (then 2 and 4 do not hold)
 *   each a mistake that must be found:
 *           NO_HALT_WAIT    relays while event warps are still at work
 *           NOTE_EARLY      an event warp says that it has halted, and launches
 *           ADVANCE_EARLY   a head moves on although the exec was busy
 *           RELAY_ALWAYS    relays with nobody waiting and events running
 *           INLINE_SKIPPED  decides to relay while event warps may launch
 *           FLAG_BELL       forgets rings that it has not seen when it relays
 */
#ifndef DISPATCHERS
#define DISPATCHERS 2
#endif
#ifndef EVENT_WARPS
#define EVENT_WARPS 2
#endif
#ifndef EVENTS
#define EVENTS 3
#endif
#ifndef BUDGET
#define BUDGET 1
#endif
#ifndef INLINE
#define INLINE 0
#endif

#define STANDBY 0
#define SERVING 1
#define INLINE_ONLY 2
#define HALTING 3

#define SERVE 0
#define HALT 1
#define LEAVE 2

#define FREE 0

byte rung;                      /* the doorbell; writer: the device */
byte command;                   /* writer: the host */
bool halted;                    /* the report */
byte token = FREE;
byte next[EVENT_WARPS];         /* heads; event n is warp n % EVENT_WARPS's */
bool waiting[DISPATCHERS];
byte ended[DISPATCHERS];        /* of this execution's events */

/* A dispatcher's block. `execution` stands for new, zeroed shared memory. */
bit execution[DISPATCHERS];
byte phase[DISPATCHERS];
byte published[DISPATCHERS];
byte taken[DISPATCHERS];
bool asks[DISPATCHERS];
byte noted[DISPATCHERS * EVENT_WARPS];

/* For the properties alone. */
byte launches[EVENTS + 1];
byte launcher[EVENTS + 1];
byte launched[DISPATCHERS];     /* by this execution */
bool in_gap[DISPATCHERS];
bool has_left[DISPATCHERS];

#define NOTED(d, p) (noted[(d) * EVENT_WARPS] >= (p) && \
                     noted[(d) * EVENT_WARPS + EVENT_WARPS - 1] >= (p))
#if DISPATCHERS == 1
#define OTHER_WAITS(d) false
#elif DISPATCHERS == 2
#define OTHER_WAITS(d) waiting[1 - (d)]
#endif
#define MAY_LAUNCH(d, w) \
  (next[w] <= published[d] && next[w] <= EVENTS && next[w] != INLINE)
#ifdef INLINE_SKIPPED
#define LAUNCHES_NO_MORE(d) true
#else
#define LAUNCHES_NO_MORE(d) NOTED(d, INLINE_ONLY)
#endif
#ifdef RELAY_ALWAYS
#define MAY_RELAY(d) true
#else
#define MAY_RELAY(d) (OTHER_WAITS(d) || taken[d] == ended[d])
#endif
/* A dispatcher whose tail launch waits for a kernel that may never end. */
#define DOWN(d) (in_gap[d] && launched[d] != ended[d])

proctype Device() {
  do
  :: rung < EVENTS -> rung++
  :: rung == EVENTS -> break
  od
}

proctype Kernel(byte n) {
  launches[n] == 1 && n != INLINE;
#ifdef STUCK
  if
  :: skip
  :: goto runs_on
  fi;
#endif
  ended[launcher[n]]++;
runs_on: skip
}

proctype EventWarp(byte d; byte w) {
  byte seen;
  byte n;
  bit mine = 1;
standby:
  execution[d] == mine && phase[d] >= SERVING;
  do
  :: seen = phase[d];
     if
     :: seen == HALTING -> break
     :: else -> noted[d * EVENT_WARPS + w] = seen
     fi;
     if
     :: next[w] == INLINE && INLINE > 0 && next[w] <= published[d] ->
        d_step {
          assert(!halted);
          launches[INLINE]++;
          assert(launches[INLINE] == 1)
        };
        next[w] = next[w] + EVENT_WARPS
     :: MAY_LAUNCH(d, w) && seen == SERVING ->
        n = next[w];
        if
        :: atomic { taken[d] < BUDGET -> taken[d]++ };
#ifdef NOTE_EARLY
           noted[d * EVENT_WARPS + w] = HALTING;
#endif
           if
           :: d_step {
                assert(!halted);
                launches[n]++;
                assert(launches[n] == 1);
                launcher[n] = d;
                launched[d]++
              };
              next[w] = n + EVENT_WARPS
           :: taken[d]--; /* busy */
#ifdef ADVANCE_EARLY
              next[w] = n + EVENT_WARPS
#endif
           fi
        :: taken[d] >= BUDGET -> asks[d] = true;
           phase[d] != seen
        fi
     :: else ->
        phase[d] != seen || (seen == SERVING && MAY_LAUNCH(d, w)) ||
        (next[w] == INLINE && INLINE > 0 && next[w] <= published[d])
     fi
  od;
  noted[d * EVENT_WARPS + w] = HALTING;
  mine = 1 - mine;
  goto standby
}

proctype Lead(byte d) {
  byte w;
start:
  skip;
  d_step {
    in_gap[d] = false;
    ended[d] = 0;
    launched[d] = 0;
    phase[d] = STANDBY;
    published[d] = 0;
    taken[d] = 0;
    asks[d] = false;
    w = 0;
    do
    :: w < EVENT_WARPS -> noted[d * EVENT_WARPS + w] = 0; w++
    :: w == EVENT_WARPS -> break
    od;
    execution[d] = 1 - execution[d]
  };
  waiting[d] = true;
  if
  :: atomic { token == FREE -> token = d + 1 }
  :: command == LEAVE ->
     waiting[d] = false;
     phase[d] = HALTING;
     NOTED(d, HALTING);
     goto gone
  fi;
  waiting[d] = false;
  if
  :: command != SERVE -> goto stop
  :: command == SERVE
  fi;
  published[d] = rung;
  phase[d] = SERVING;
  do
  :: command != SERVE -> goto stop
  :: published[d] < rung -> published[d] = rung
  :: phase[d] == SERVING && asks[d] -> phase[d] = INLINE_ONLY
  :: phase[d] == INLINE_ONLY && LAUNCHES_NO_MORE(d) && MAY_RELAY(d) -> break
  od;
  phase[d] = HALTING;
#ifndef NO_HALT_WAIT
  NOTED(d, HALTING);
#endif
#ifdef FLAG_BELL
  d_step {
    w = 0;
    do
    :: w < EVENT_WARPS ->
       do
       :: next[w] <= rung -> next[w] = next[w] + EVENT_WARPS
       :: else -> break
       od;
       w++
    :: w == EVENT_WARPS -> break
    od
  };
#endif
  d_step {
    in_gap[d] = true;
#if DISPATCHERS == 2
    assert(!(DOWN(0) && DOWN(1)))
#else
    assert(!DOWN(0))
#endif
  };
  token = FREE;
  launched[d] == ended[d]; /* the tail launch */
#ifdef NO_HALT_WAIT
  NOTED(d, HALTING);
#endif
  goto start;

stop:
  phase[d] = HALTING;
  NOTED(d, HALTING);
  halted = true;
  command == LEAVE;
gone:
  has_left[d] = true
}

proctype Host() {
  if
  :: true
  :: command = HALT;
     if
     :: true
     :: halted -> command = LEAVE
     fi
  :: command = LEAVE
  fi
}

/* When nothing moves any more. */
proctype Judge() {
  byte n;
  timeout;
  if
  :: command == HALT -> assert(halted)
  :: else
  fi;
#ifndef STUCK
  if
  :: command == SERVE ->
     for (n : 1 .. EVENTS) {
       assert(launches[n] == 1)
     }
  :: command == LEAVE ->
     for (n : 0 .. DISPATCHERS - 1) {
       assert(has_left[n])
     }
  :: else
  fi
#endif
}

init {
  byte i;
  byte j;
  atomic {
    for (i : 0 .. EVENT_WARPS - 1) {
      next[i] = (i == 0 -> EVENT_WARPS : i)
    }
    for (i : 1 .. EVENTS) {
      run Kernel(i)
    }
    for (i : 0 .. DISPATCHERS - 1) {
      run Lead(i);
      for (j : 0 .. EVENT_WARPS - 1) {
        run EventWarp(i, j)
      }
    }
    run Device();
    run Host();
    run Judge()
  }
}
