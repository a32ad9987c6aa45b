/*
 * One ring over a link that may be cut at any time: the near end, on the
 * device's host, and the far end, on the GPU's. What is checked: link_checks.sh.
 *
 * A device rings EVENTS events in a ring of SLOTS slots. The near end sends them
 * from the ring, the far end puts them into a ring of its own, of as many slots,
 * a GPU runs them, and the far end sends the completions from there. Nothing is
 * copied aside: a slot is kept until nobody needs it. A link is one connection
 * after another; a frame that was sent on one that is cut may still be read by who
 * reads from it, until that takes the next; and one may come to the far end only
 * after newer ones were opened. Frames of one connection arrive in order.
 *
 * The near end opens a connection and says hello with what it has completed; the
 * far end answers with what it has accepted. Each goes on from what the other one
 * said. CUTS times a connection is cut, NEAR_DEATHS times the near end dies (its
 * rings do not), FAR_DEATHS times the far end (with its ring: the next one begins
 * where the near end says).
 *
 * Proved:
 *   1. each frame has the next number: one that has not is a broken peer's, and
 *      no number need be dropped;
 *   2. completions are taken of events that ran, each once;
 *   3. no slot is used again that somebody still needs;
 *   4. an event runs again only if the far end has died, once for each time;
 *   5. all events complete, if the link holds in the end.
 *
 * Switches, each a mistake that must be found:
 *   HELLO_RACE       the near end sends before the far end has answered
 *   STALE_EPOCH      a frame chosen before a connection was cut goes to the next
 *   NO_REPLAY        the near end goes on from what it has sent
 *   EARLY_FREE       the far end frees a slot when it has sent the completion
 *   ACK_BEFORE_STORE the near end acknowledges a completion before it stores it
 *   HELLO_BEFORE_STORE  it says hello before it has stored what it has read
 *   LATE_CONNECTION  the far end takes one that is older than its own
 */
#ifndef EVENTS
#define EVENTS 4
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef NEAR_DEATHS
#define NEAR_DEATHS 0
#endif
#ifndef FAR_DEATHS
#define FAR_DEATHS 0
#endif
#define CONNECTIONS (CUTS + NEAR_DEATHS + FAR_DEATHS + 1)

#define HELLO 1                 /* number: completed, or accepted */
#define EVENT 2                 /* number; and what the near end has completed */
#define DONE 3                  /* number */

#ifdef HELLO_RACE
#define MAY_SEND true
#else
#define MAY_SEND heard
#endif
#ifdef STALE_EPOCH
#define IN_TIME true
#else
#define IN_TIME (chosen_in == epoch)
#endif
#ifdef HELLO_BEFORE_STORE
#define HAS_STORED true
#else
#define HAS_STORED (storing == 0)
#endif
#define HAS_ROOM(channel) (len(channel) < 2)

chan to_far[CONNECTIONS + 1] = [2] of { byte, byte, byte };
chan to_near[CONNECTIONS + 1] = [2] of { byte, byte };
byte opened;                    /* the newest connection; 0: none */
bool is_cut = true;             /* that one */

/* The near ring. */
byte rung;
byte completed;
/* The far ring. */
bool has_ring;
byte accepted;
byte done;
byte freed;

/* For the properties alone. */
byte runs[EVENTS + 1];
byte taken[EVENTS + 1];
byte cuts;
byte near_deaths;
byte far_deaths;

proctype Device() {
  do
  :: atomic { rung < EVENTS && rung - completed < SLOTS -> rung++ }
  :: atomic { rung == EVENTS -> break }
  od
}

proctype Gpu() {
end:
  do
  :: atomic { has_ring && done < accepted ->
       done++;
       runs[done]++;
       assert(runs[done] <= 1 + far_deaths)
     }
  od
}

proctype Wire() {
end:
  do
  :: atomic { !is_cut && cuts < CUTS -> cuts++; is_cut = true }
  od
}

proctype Near() {
  byte kind; byte n;
  byte epoch;                   /* of its connection */
  bool heard;                   /* the far end's hello */
  byte sent;
  byte chosen; byte chosen_in;  /* an event that is about to be sent */
  byte storing;                 /* a completion that is about to be stored */
end:
  do
  :: atomic { is_cut && HAS_STORED && opened < CONNECTIONS ->
       opened++;
       is_cut = false;
       epoch = opened;
       heard = false;
       to_far[epoch]!HELLO, completed, 0
     }
  :: atomic { len(to_near[epoch]) > 0 && storing == 0 ->
       to_near[epoch]?kind, n;
       if
       :: kind == HELLO ->
            assert(completed <= n && n <= rung);
            heard = true;
#ifdef NO_REPLAY
            if
            :: sent < n -> sent = n
            :: else
            fi
#else
            sent = n
#endif
       :: kind == DONE ->
            assert(n == completed + 1);
            storing = n
       fi;
       kind = 0; n = 0
     }
  :: atomic { storing != 0 ->
       assert(runs[storing] > 0);
       taken[storing]++;
       assert(taken[storing] == 1);
       completed = storing;
       storing = 0
     }
  :: atomic { MAY_SEND && chosen == 0 && epoch == opened && sent < rung ->
       chosen = sent + 1;
       chosen_in = epoch
     }
  :: atomic { chosen != 0 ->
       if
       :: IN_TIME && !is_cut && HAS_ROOM(to_far[epoch]) ->
#ifdef ACK_BEFORE_STORE
            to_far[epoch]!EVENT, chosen, (storing != 0 -> storing : completed);
#else
            to_far[epoch]!EVENT, chosen, completed;
#endif
            sent = chosen
       :: else
       fi;
       chosen = 0; chosen_in = 0
     }
  :: atomic { near_deaths < NEAR_DEATHS && epoch != 0 ->
       near_deaths++;
       is_cut = true;
       epoch = 0; heard = false; sent = 0; chosen = 0; chosen_in = 0; storing = 0
     }
  od
}

proctype Far() {
  byte kind; byte n; byte acked;
  byte epoch;
  byte next;
  byte dead;                    /* connections of those that have died */
  bool greeted;
  byte sent;
end:
  do
  :: atomic { epoch < opened && opened > dead ->
       /* Any newer one: the network may have kept others back. */
       next = (epoch > dead -> epoch : dead) + 1;
       do
       :: next < opened -> next++
       :: break
       od;
       epoch = next;
       greeted = false;
       next = 0
     }
#ifdef LATE_CONNECTION
  :: atomic { epoch > dead + 1 ->
       epoch = dead + 1;
       greeted = false
     }
#endif
  :: atomic { len(to_far[epoch]) > 0 && (epoch != opened || is_cut || HAS_ROOM(to_near[epoch])) ->
       to_far[epoch]?kind, n, acked;
       if
       :: kind == HELLO ->
            if
            :: has_ring ->
                 assert(freed <= n && n <= done);
                 freed = n
            :: else ->
                 has_ring = true;
                 accepted = n; done = n; freed = n
            fi;
            sent = n;
            greeted = true;
            if
            :: epoch == opened && !is_cut -> to_near[epoch]!HELLO, accepted
            :: else
            fi
       :: kind == EVENT ->
            assert(n == accepted + 1);
            assert(acked >= freed);
            freed = acked;
            assert(accepted - freed < SLOTS);
            accepted = n
       fi;
       kind = 0; n = 0; acked = 0
     }
  :: atomic { greeted && epoch == opened && !is_cut && sent < done && HAS_ROOM(to_near[epoch]) ->
       sent++;
       assert(sent > freed);    /* it still lies there */
       to_near[epoch]!DONE, sent;
#ifdef EARLY_FREE
       freed = sent
#endif
     }
  :: atomic { far_deaths < FAR_DEATHS && has_ring ->
       far_deaths++;
       is_cut = true;
       dead = opened;
       epoch = 0; greeted = false; sent = 0;
       has_ring = false; accepted = 0; done = 0; freed = 0
     }
  od
}

init {
  atomic { run Device(); run Gpu(); run Wire(); run Near(); run Far() };
  timeout;
  assert(completed == EVENTS)
}
