/*
 * Simulated time by turns (simulated_time.h): gpud and two devices, each with one
 * event at a time. simulated_time_checks.sh says what is checked. How they sleep
 * and wake is ring.pml's: here, who waits for a word waits for its change.
 *
 * Proved for all choices of when devices ring and when they want their turns, and
 * of how long events run, up to time UNTIL:
 *   1. no ring of the past: gpud finds every doorbell before its time is over;
 *   2. no lost event: each that was rung ends, and its device has a turn for it;
 *   3. nobody waits for ever: time goes on until nothing is left to happen.
 *
 * Mistakes that must be found:
 *   LOOK_FIRST    gpud looks at the doorbells before it looks for answers
 *   ANSWER_FIRST  a device answers before it rings
 *   NO_TURN       a completion gives its device no turn
 *   STALE_NEXT    a device stores its turn before its next time
 */
#ifndef UNTIL
#define UNTIL 3
#endif
#ifndef LOOK_FIRST
#define LOOK_FIRST 0
#endif
#ifndef ANSWER_FIRST
#define ANSWER_FIRST 0
#endif
#ifndef NO_TURN
#define NO_TURN 0
#endif
#ifndef STALE_NEXT
#define STALE_NEXT 0
#endif
#define NEVER 255

/* Shared memory; writer: gpud. */
byte turn[2];
byte now[2];
byte completed[2];
/* Writers: the devices. */
byte answered[2];
byte next[2];
byte doorbell[2];
byte rung_at[2];

byte taken[2]; /* completions that the device has seen */
bool finished = false;

active [2] proctype Device() {
  byte mine = 0;
  byte at;
  byte wanted;
  bool rings;
end:
  do
  :: turn[_pid] != mine ->
    mine = turn[_pid];
    at = now[_pid];
    taken[_pid] = completed[_pid];
    /* What it does at `at`. */
    rings = false;
    if
    :: at < UNTIL && taken[_pid] == doorbell[_pid] -> rings = true
    :: true
    fi;
    if
    :: wanted = NEVER
    :: at + 1 <= UNTIL -> wanted = at + 1
    :: at + 2 <= UNTIL -> wanted = at + 2
    fi;
    if
    :: ANSWER_FIRST ->
      next[_pid] = wanted;
      answered[_pid] = mine
    :: else
    fi;
    if
    :: rings ->
      rung_at[_pid] = at;
      doorbell[_pid]++
    :: else
    fi;
    if
    :: STALE_NEXT ->
      answered[_pid] = mine;
      next[_pid] = wanted
    :: !STALE_NEXT && !ANSWER_FIRST ->
      next[_pid] = wanted;
      answered[_pid] = mine
    :: else
    fi
  od
}

#define LOOK(i) \
  if \
  :: doorbell[i] != seen[i] -> \
    assert(rung_at[i] >= clock); \
    seen[i]++; \
    waiting[i] = rung_at[i] \
  :: else \
  fi

#define LEAST(a) \
  if \
  :: a < least -> least = a \
  :: else \
  fi

#define GIVE(i) \
  now[i] = clock; \
  promised[i] = NEVER; \
  turn[i]++

#define PASS(i) \
  if \
  :: waiting[i] == clock -> \
    waiting[i] = NEVER; \
    if \
    :: ends[i] = clock + 1 \
    :: ends[i] = clock + 2 \
    fi \
  :: else \
  fi

/* At the end of an event, and at the time that was asked for. */
#define LIVE(i) \
  if \
  :: ends[i] == clock -> \
    ends[i] = NEVER; \
    completed[i]++; \
    if \
    :: NO_TURN -> skip \
    :: else -> GIVE(i) \
    fi \
  :: ends[i] != clock && promised[i] == clock -> GIVE(i) \
  :: else \
  fi

active proctype Gpud() {
  byte clock = 0;
  byte least;
  byte seen[2];
  byte waiting[2];  /* a ring's time, until the GPU takes it */
  byte ends[2];     /* when the GPU will be done with it */
  byte promised[2]; /* the next turn, by an answer */
  waiting[0] = NEVER; waiting[1] = NEVER;
  ends[0] = NEVER; ends[1] = NEVER;
  GIVE(0);
  GIVE(1);
  do
  :: if
     :: LOOK_FIRST -> LOOK(0); LOOK(1)
     :: else
     fi;
     answered[0] == turn[0];
     promised[0] = next[0];
     answered[1] == turn[1];
     promised[1] = next[1];
     if
     :: !LOOK_FIRST -> LOOK(0); LOOK(1)
     :: else
     fi;
     least = NEVER;
     LEAST(waiting[0]); LEAST(waiting[1]);
     LEAST(ends[0]); LEAST(ends[1]);
     LEAST(promised[0]); LEAST(promised[1]);
     if
     :: least == NEVER -> break
     :: else
     fi;
     assert(least >= clock);
     clock = least;
     PASS(0); PASS(1);
     LIVE(0); LIVE(1)
  od;
  finished = true
}

active proctype Judge() {
end:
  timeout -> assert(finished && taken[0] == doorbell[0] && taken[1] == doorbell[1])
}
