/*
 * One ring with its arm/sleep/wake protocol, in both directions, while either
 * process may die between any two steps. ring_checks.sh says what is checked.
 *
 * Each statement below is one access to shared memory, in the order that
 * device_ring.h, gpu_ring.h, wakeups.h and waiting.h prescribe; those orders are
 * sequentially consistent there wherever the model depends on it.
 *
 * Proved for EVENTS events over a ring of SLOTS entries:
 *   1. no torn event: a published entry or completion is whole;
 *   2. no double event: gpud ends each event at most once;
 *   3. no lost event: while nobody dies or closes, each event that was rung
 *      ends, and the device sees it;
 *   4. no endless sleep: whoever sleeps with work, or with a dead peer, wakes;
 *   5. no innocent eviction: a device that keeps to the protocol never rings
 *      for more slots than gpud knows to be free.
 *
 * Switches: EPOLL      the device sleeps in epoll instead of in a futex
 *           WORKERS    threads of gpud that end events (in any order)
 *   each a mistake that must be found; 1 = towards gpud, 2 = towards the device:
 *           WAKER_CLEARS, NO_RECHECK, SUMMARY_LATE, PUBLISH_FIRST, NO_FENCE,
 *           NO_WAKE_ON_DEATH, and (one direction only) NO_FREE_CHECK, CLOSE_LATE,
 *           FREE_LATE
 */
#ifndef EVENTS
#define EVENTS 3
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef WAKER_CLEARS
#define WAKER_CLEARS 0
#endif
#ifndef NO_RECHECK
#define NO_RECHECK 0
#endif
#ifndef SUMMARY_LATE
#define SUMMARY_LATE 0
#endif
#ifndef PUBLISH_FIRST
#define PUBLISH_FIRST 0
#endif
#ifndef NO_FENCE
#define NO_FENCE 0
#endif
#ifndef NO_WAKE_ON_DEATH
#define NO_WAKE_ON_DEATH 0
#endif
#ifndef NO_FREE_CHECK
#define NO_FREE_CHECK 0
#endif
#ifndef CLOSE_LATE
#define CLOSE_LATE 0
#endif

#ifndef FREE_LATE
#define FREE_LATE 0
#endif

#define GPUD 1
#define DEVICE 2
#define SLOT(sequence) ((sequence) % SLOTS)

/* Submission aperture (writer: the device). Two halves of an entry stand for
   all its bytes; a whole entry holds its sequence in both. */
byte esq_first[SLOTS];
byte esq_second[SLOTS];
byte doorbell;
byte gpud_summary;
bool device_armed;

/* Completion aperture (writer: gpud). */
byte ecq_state[SLOTS];
byte ecq_sequence[SLOTS];
byte device_summary;
bool gpud_armed;
bool closed;

/* The CompletionEvent is readable. */
bool event;

/* Private words that each process's watcher sets when its peer has died. */
bool gpud_sees_death;
bool device_sees_death;

/* The kernel's view: who is queued on a futex, who is gone. */
bool gpud_asleep;
bool device_asleep;
bool gpud_dead;
bool device_dead;

/* gpud's own: its slots whose event has ended (EventKernel::slots_). */
bool finished[SLOTS];

/* Bookkeeping of the proof. */
byte ended[EVENTS + 1];
bool front_end_left;
bool device_left;
byte consumed;

/* gpud's own queue from the front-end to the threads that run kernels. */
chan launched = [SLOTS + 1] of { byte };

/* Asleep only if both words still hold what the sleeper expects; may also
   return without a cause. */
inline futex_wait(word, expected, private_word, asleep) {
  atomic {
    if
    :: word == expected && !private_word -> asleep = true
    :: true
    fi
  }
  !asleep
}

inline bump_and_wake(summary, asleep) {
  summary++;
  asleep = false
}

/* DeviceRing::Commit */
inline write_entry(sequence) {
  esq_first[SLOT(sequence)] = sequence;
  esq_second[SLOT(sequence)] = sequence
}

/* DeviceRing::Ring */
inline ring() {
#if NO_FENCE == GPUD
  armed = gpud_armed;
  doorbell = head;
#else
  doorbell = head;
  armed = gpud_armed;
#endif
  if
  :: armed ->
     bump_and_wake(gpud_summary, gpud_asleep);
#if WAKER_CLEARS == GPUD
     gpud_armed = false
#endif
  :: else
  fi;
  atomic { armed = false; rung = head }
}

#define COMPLETED (ecq_sequence[SLOT(tail + 1)] == tail + 1)
#define ENDED (closed || device_sees_death)

/* CompletionWaiter::WaitUntil, after its spin; or the flavour for epoll. */
inline device_sleep() {
#if SUMMARY_LATE != DEVICE
  device_armed = true;
  value = device_summary;
#else
  device_armed = true;
#endif
  if
#if NO_RECHECK != DEVICE
  :: COMPLETED
#endif
  :: ENDED
  :: else ->
#if SUMMARY_LATE == DEVICE
     value = device_summary;
#endif
#ifdef EPOLL
     /* The connection's end-of-file is in the same epoll. */
#if NO_WAKE_ON_DEATH == DEVICE
     event;
#else
     event || gpud_dead;
#endif
#else
     futex_wait(device_summary, value, device_sees_death, device_asleep)
#endif
  fi;
#ifdef EPOLL
  event = false;
#endif
  atomic { device_armed = false; value = 0 }
}

active proctype Device() {
  byte head = 0;
  byte rung = 0;
  byte tail = 0;
  byte value = 0;
  bool armed = false;
  {
    do
#if NO_FREE_CHECK
    :: head < EVENTS ->
#else
    :: head < EVENTS && head - tail < SLOTS ->
#endif
       head++;
#if PUBLISH_FIRST == GPUD
       ring();
       write_entry(head)
#else
       write_entry(head)
#endif
    :: head > rung -> ring()
    :: tail < rung && COMPLETED ->
       assert(ecq_state[SLOT(tail + 1)] == tail + 1);
       tail++;
       consumed = tail
    :: tail < rung && !COMPLETED && !ENDED -> device_sleep()
    :: tail == EVENTS -> break
    :: ENDED -> break
    od;
    device_left = true
  } unless { device_dead }
}

/* A thread of the device: waits on gpud's pidfd, then closes ClosedWord. */
active proctype DeviceWatcher() {
  {
    gpud_dead;
    device_sees_death = true;
#if NO_WAKE_ON_DEATH != DEVICE
    device_asleep = false
#endif
  } unless { device_dead }
}

/* gpud's one thread that polls doorbells. */
active proctype FrontEnd() {
  byte seen = 0;
  byte completed = 0;
  byte bell = 0;
  byte value = 0;
  {
    do
    :: gpud_sees_death || closed -> break
    :: atomic { doorbell != seen -> bell = doorbell }
       /* EventKernel::AdvanceCompleted */
       do
       :: completed < seen && finished[SLOT(completed + 1)] ->
          finished[SLOT(completed + 1)] = false;
          completed++
       :: else -> break
       od;
       assert(bell - seen <= SLOTS - (seen - completed));
       bell = 0;
       seen++;
       assert(esq_first[SLOT(seen)] == seen);
       assert(esq_second[SLOT(seen)] == seen);
       launched ! seen
    :: else ->
       gpud_armed = true;
#if SUMMARY_LATE != GPUD
       value = gpud_summary;
#endif
       if
#if NO_RECHECK != GPUD
       :: doorbell != seen
#endif
       :: gpud_sees_death || closed
       :: else ->
#if SUMMARY_LATE == GPUD
          value = gpud_summary;
#endif
          futex_wait(gpud_summary, value, gpud_sees_death, gpud_asleep)
       fi;
       atomic { gpud_armed = false; value = 0 }
    od;
    front_end_left = true
  } unless { gpud_dead }
}

/* gpud's threads that run kernels: GpuRing::Complete, CompletionBell::Signal. */
active [WORKERS] proctype Worker() {
  byte sequence = 0;
  bool armed = false;
  {
    do
    :: launched ? sequence ->
       atomic { ended[sequence]++; assert(ended[sequence] == 1) }
#if NO_FENCE == DEVICE
       armed = device_armed;
#endif
#if !FREE_LATE
       finished[SLOT(sequence)] = true;
#endif
#if PUBLISH_FIRST == DEVICE
       ecq_sequence[SLOT(sequence)] = sequence;
       ecq_state[SLOT(sequence)] = sequence;
#else
       ecq_state[SLOT(sequence)] = sequence;
       ecq_sequence[SLOT(sequence)] = sequence;
#endif
#if FREE_LATE
       finished[SLOT(sequence)] = true;
#endif
#if NO_FENCE != DEVICE
       armed = device_armed;
#endif
       if
       :: armed ->
#ifdef EPOLL
          event = true;
#else
          bump_and_wake(device_summary, device_asleep);
#endif
#if WAKER_CLEARS == DEVICE
          device_armed = false
#endif
       :: else
       fi;
       atomic { armed = false; sequence = 0 }
    od
  } unless { gpud_dead }
}

/* gpud's control plane: waits on the device's pidfd, then writes the
   front-end's own futex word. */
active proctype GpudWatcher() {
  {
    device_dead;
    gpud_sees_death = true;
#if NO_WAKE_ON_DEATH != GPUD
    gpud_asleep = false
#endif
  } unless { gpud_dead }
}

inline tell_device_that_it_is_closed() {
#ifdef EPOLL
  event = true;
#else
  bump_and_wake(device_summary, device_asleep);
#endif
}

/* At one moment of every run, or never: somebody is killed, or gpud closes the
   aperture (CompletionBell::SignalAlways). */
active proctype Fate() {
  if
  :: device_dead = true
  :: gpud_dead = true
  ::
#if CLOSE_LATE
     tell_device_that_it_is_closed();
     closed = true
#else
     closed = true;
     tell_device_that_it_is_closed();
#endif
     /* The front-end is told over its mailbox word, as of a death. */
     gpud_sees_death = true;
     gpud_asleep = false
  :: true
  fi
}

/* Judges when nothing can move any more. */
active proctype Judge() {
  byte sequence = 0;
  timeout;
  atomic {
    if
    :: !device_dead -> assert(device_left)
    :: else
    fi;
    if
    :: device_dead && !gpud_dead -> assert(front_end_left)
    :: else
    fi;
    if
    :: !device_dead && !gpud_dead && !closed ->
       assert(consumed == EVENTS);
       for (sequence : 1 .. EVENTS) {
         assert(ended[sequence] == 1)
       }
    :: else
    fi
  }
}
