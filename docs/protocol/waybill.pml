/*
 * The protocol of docs/protocol.md as a model for Spin. check.sh beside it checks the
 * model, and then the model with each guard taken out, of which each must fail.
 *
 * What stands for what:
 *
 *   here                         in the code
 *   row[r]                       a delivery row: status, claimed_by, claimed_at, and whether its lease runs
 *   Relay: claim, send, extend,  relay, on Store.Claim, ClaimLapsed, Extend and GiveBack; "settle" is a relay
 *     give back, settle            that parks a row or settles an orphan, with Store.Ack under its own claim
 *   queue[r]                     any backend
 *   Worker: take, extend, ack,   waybill.Take, Lease.Keep and waybill.Record, on Store.Take, Extend, Ack,
 *     give back                    RunTx and GiveBack; Operator: Store.Cancel and Store.Reopen
 *   Database: stamp, lapse       the store's clock: GREATEST(now, claimed_at + 1 microsecond), and leases
 *
 * Each statement of a store is one step, as it is there. What a process has in memory
 * is in relay[] and job[]. A process that dies forgets it; the next one has the same
 * id, which is harsher than the code, where it gets a new one. With -DSHARED both
 * relays have one id and both workers have one id: claimed_at alone tells them apart.
 *
 * Claims and takes of a row are numbered by n, which nobody in the model can read: it
 * tells the assertions which claim is meant, whatever the stamps are. A row has CLAIMS of
 * them at most; nothing else is bounded. claimed_at is a number. The clock
 * moves on by one with each stamp, and may step back to its beginning at any time
 * (-DSTEADY: never). With -DSTILL it stands, behind every stamp: two rows then have no
 * more states than can be visited.
 *
 * A message is in the queue once for each claim. A take leaves it there, so it comes
 * again as often as it likes, in any order with others; or the queue loses it. The
 * lease of a row ends at any time: no clock tells anybody when. A run goes on past the
 * end of its lease. An answer that is lost after a claim or a take is a process that
 * dies then; an acknowledgement whose answer is lost is repeated, with whatever outcome.
 *
 * An eager claim is a claim like any other here, whose message its own process takes.
 *
 * Not in the model: pauses and lapsed rows that are kept (both only leave claims or
 * takes out), the contents of rows, and two statements that run at once: the databases
 * see to it that each finds what the other left. WEAK_TAKE_TWICE is what would be if
 * they did not.
 *
 * The invariants:
 *
 *   I1  two workers never run one row, both under leases that have not ended
 *   I2  an acknowledgement lands only under the current claim
 *   I3  a stale copy never runs
 *   I4  the outcome of a run counts once
 *   I5  no owed row is lost: once the faults end, every row is settled (-DCALM)
 *   I7  no row is cancelled under a running worker
 *
 * With -DCALM faults end at some moment, anywhere: from then on nothing is lost, nobody
 * dies, and a lease ends only where nobody is left to use it. Every path has then to
 * come to a settled row, without an assumption of fairness.
 */

#ifndef ROWS
#define ROWS 1
#endif
#ifndef CLAIMS
#define CLAIMS 5
#endif
#define MAX_ATTEMPTS 2

/* An option of a selection for the message of each claim of a row. */
#define OF_3(option, r) option(r, 1) :: option(r, 2) :: option(r, 3)
#if CLAIMS == 3
#define EACH_CLAIM(option, r) OF_3(option, r)
#elif CLAIMS == 4
#define EACH_CLAIM(option, r) OF_3(option, r) :: option(r, 4)
#elif CLAIMS == 5
#define EACH_CLAIM(option, r) OF_3(option, r) :: option(r, 4) :: option(r, 5)
#elif CLAIMS == 6
#define EACH_CLAIM(option, r) OF_3(option, r) :: option(r, 4) :: option(r, 5) :: option(r, 6)
#elif CLAIMS == 7
#define EACH_CLAIM(option, r) OF_3(option, r) :: option(r, 4) :: option(r, 5) :: option(r, 6) :: option(r, 7)
#else
#error "CLAIMS is 3 to 7"
#endif

/* Owner ids. */
#ifdef SHARED
#define RELAY_ID 1
#define WORKER_ID 3
#else
#define RELAY_ID (1 + me)
#define WORKER_ID (3 + me)
#endif

mtype = { pending, claimed, failed, succeeded, dead, cancelled }
mtype = { idle, looked, running, acking }

typedef Row {
	mtype status = pending;
	byte by, at;   /* the claim */
	bool lease;    /* it has not ended */
	bool taken;    /* by a worker, under this hand-off */
	byte attempts;
	byte n         /* how many claims and takes there were: the number of the current one */
}
typedef Copies { byte by[CLAIMS + 1]; byte at[CLAIMS + 1] }         /* by 0: no message */
typedef Handed { byte row, at, n; bool sent }                       /* n 0: none */
typedef Run { mtype phase = idle; byte row, at, n; bool lease, counted }

Row row[ROWS];
Copies queue[ROWS];
Handed relay[2];
Run job[2];
byte clock = 1;
bool calm;                                                          /* the faults are over */
bool I1 = true, I2 = true, I3 = true, I4 = true, I7 = true;

#define CHECK(invariant, holds) invariant = (holds); assert(invariant)
#define OWED(r)    (row[r].status == pending || row[r].status == claimed || row[r].status == failed)
#define HELD(r, b, a) (row[r].status == claimed && row[r].by == (b) && row[r].at == (a))

/* The guards, each with what is left of it when it is weakened. */

#if defined(WEAK_TAKE_CLAIM)             /* id and status only */
#define TAKES(r, b, a) (row[r].status == claimed)
#elif defined(WEAK_TAKE_AT)              /* claimed_at is not compared */
#define TAKES(r, b, a) (row[r].status == claimed && row[r].by == (b))
#else
#define TAKES(r, b, a) HELD(r, b, a)
#endif

#if defined(WEAK_ACK_ID)                 /* id only */
#define ACKS(r, b, a) true
#elif defined(WEAK_ACK_STATUS)           /* the status is not compared */
#define ACKS(r, b, a) (row[r].by == (b) && row[r].at == (a))
#elif defined(WEAK_ACK_CLAIM)            /* id and status only */
#define ACKS(r, b, a) (row[r].status == claimed)
#elif defined(WEAK_ACK_AT)               /* claimed_at is not compared */
#define ACKS(r, b, a) (row[r].status == claimed && row[r].by == (b))
#else
#define ACKS(r, b, a) HELD(r, b, a)
#endif

#ifdef WEAK_EXTEND
#define EXTENDS(r, b, a) (row[r].status == claimed)
#else
#define EXTENDS(r, b, a) HELD(r, b, a)
#endif

#ifdef WEAK_GIVE_BACK
#define RELEASES(r, b, a) (row[r].status == claimed)
#else
#define RELEASES(r, b, a) HELD(r, b, a)
#endif

#ifdef WEAK_CANCEL
#define CANCELS(r) OWED(r)
#else
#define CANCELS(r) (row[r].status == pending || row[r].status == failed)
#endif

#ifdef WEAK_REPLAY
#define REPLAYS(r) (!OWED(r) || row[r].status == claimed)
#else
#define REPLAYS(r) (!OWED(r))
#endif

#if defined(WEAK_LIVE)                   /* claims rows whose leases run */
#define LAPSED(r) (row[r].status == claimed)
#elif defined(WEAK_NO_LAPSED)            /* never claims a row anew */
#define LAPSED(r) false
#else
#define LAPSED(r) (row[r].status == claimed && !row[r].lease)
#endif

#ifdef CALM
#define ROOM(r) (row[r].n < (calm -> CLAIMS : CLAIMS - 2))  /* what it takes to settle a row */
#define FAULTS (!calm)
#else
#define ROOM(r) (row[r].n < CLAIMS)
#define FAULTS true
#endif

inline stamp(which) {
#ifdef WEAK_STAMP
	row[which].at = clock;
#else
	row[which].at = (clock > row[which].at -> clock : row[which].at + 1);
#endif
	row[which].n++;
#ifndef STILL
	clock++
#endif
}

inline leave(which, to) { /* the row leaves the status claimed */
#ifdef WEAK_NULL
	row[which].at = 0;
#endif
	row[which].status = to;
	row[which].lease = false;
	row[which].taken = false
}

inline forget_handed() { relay[me].row = 0; relay[me].at = 0; relay[me].n = 0; relay[me].sent = false }

#define CLAIMS_ROW(r) (relay[me].n == 0 && ROOM(r) && (row[r].status == pending || row[r].status == failed || LAPSED(r)))
inline claim(r) {
	row[r].status = claimed;
	row[r].by = RELAY_ID;
	row[r].lease = true;
	row[r].taken = false;
	stamp(r);
	relay[me].row = r;
	relay[me].at = row[r].at;
	relay[me].n = row[r].n
}

#define MINE relay[me].row
#define CURRENT(i) (relay[i].n == row[relay[i].row].n && row[relay[i].row].status == claimed)

/* When a relay is through with a row in calm times. */
#ifdef WEAK_KEEP
#define THROUGH (!CURRENT(me))                  /* it renews what was sent, for ever */
#else
#define THROUGH (relay[me].sent || !CURRENT(me))
#endif

active [2] proctype Relay() {
	byte me = _pid;
	do
	:: d_step { CLAIMS_ROW(0) -> claim(0) }
#if ROWS > 1
	:: d_step { CLAIMS_ROW(1) -> claim(1) }
#endif
	:: d_step { relay[me].n && !relay[me].sent ->
		queue[MINE].by[relay[me].n] = RELAY_ID;
		queue[MINE].at[relay[me].n] = relay[me].at;
		relay[me].sent = true }
	:: d_step { FAULTS && relay[me].n && EXTENDS(MINE, RELAY_ID, relay[me].at) -> row[MINE].lease = true }
	:: d_step { FAULTS && relay[me].n && RELEASES(MINE, RELAY_ID, relay[me].at) -> /* also what was sent: an answer that is not true */
		row[MINE].lease = false;
		row[MINE].taken = false;
		forget_handed() }
	:: d_step { FAULTS && relay[me].n && HELD(MINE, RELAY_ID, relay[me].at) ->
		CHECK(I2, relay[me].n == row[MINE].n);
		leave(MINE, dead);
		forget_handed() }
	:: d_step { relay[me].n && (FAULTS || THROUGH) -> forget_handed() } /* it is done, or it died */
	od
}

#define OTHER job[1 - me]
#define RUNS(r) (job[me].row == r)

inline forget_run() { job[me].phase = idle; job[me].row = 0; job[me].at = 0; job[me].n = 0; job[me].lease = false; job[me].counted = false }

inline look(which, copy) { /* the first half of a take that is not one statement */
	job[me].phase = looked;
	job[me].row = which;
	job[me].n = copy
}

inline take(which, copy) {
	CHECK(I1, !(OTHER.phase == running && OTHER.lease && OTHER.row == which));
	CHECK(I3, copy == row[which].n && !row[which].taken);
#ifdef WEAK_TAKE_KEEPS
	row[which].n = row[which].n; /* the row stays under the relay's claim */
#else
	row[which].by = WORKER_ID;
	stamp(which);
#endif
	row[which].lease = true;
	row[which].taken = true;
	job[me].phase = running;
	job[me].row = which;
	job[me].at = row[which].at;
	job[me].n = row[which].n;
	job[me].lease = true
}

#ifdef WEAK_TAKE_TWICE                          /* reads the row, and then writes it */
#define TAKE(r, k) d_step { job[me].phase == idle && queue[r].by[k] && TAKES(r, queue[r].by[k], queue[r].at[k]) -> look(r, k) }
#else
#define TAKE(r, k) d_step { job[me].phase == idle && queue[r].by[k] && ROOM(r) && TAKES(r, queue[r].by[k], queue[r].at[k]) -> take(r, k) }
#endif

/* The id under which a run acts: the row's own, if the take does not move the claim. */
#ifdef WEAK_TAKE_KEEPS
#define RUN_ID row[job[me].row].by
#else
#define RUN_ID WORKER_ID
#endif
#define BY_RUN(guard) guard(job[me].row, RUN_ID, job[me].at)
#define DONE (job[me].phase == running || job[me].phase == acking)

inline land(to, spent) {
	CHECK(I2, job[me].n == row[job[me].row].n);
	CHECK(I4, !job[me].counted && row[job[me].row].attempts + spent <= MAX_ATTEMPTS);
	job[me].counted = true;
	row[job[me].row].attempts = row[job[me].row].attempts + spent;
	leave(job[me].row, to)
}

#define LAST (row[job[me].row].attempts + 1 >= MAX_ATTEMPTS)
inline fail() { if :: LAST -> land(dead, 1) :: else -> land(failed, 1) fi }

active [2] proctype Worker() {
	byte me = _pid - 2;
	do
	:: EACH_CLAIM(TAKE, 0)
#if ROWS > 1
	:: EACH_CLAIM(TAKE, 1)
#endif
#ifdef WEAK_TAKE_TWICE
	:: d_step { job[me].phase == looked && ROOM(job[me].row) -> take(job[me].row, job[me].n) }
#endif
	:: d_step { FAULTS && job[me].phase == running && BY_RUN(EXTENDS) -> row[job[me].row].lease = true; job[me].lease = true }
	:: d_step { DONE && BY_RUN(ACKS) -> land(succeeded, 1); forget_run() }
	:: d_step { FAULTS && DONE && BY_RUN(ACKS) -> fail(); forget_run() }
	:: d_step { FAULTS && DONE && BY_RUN(ACKS) -> land(failed, 0); forget_run() } /* deferred: spends no attempt */
	/* the same, and the answer is lost */
	:: d_step { FAULTS && DONE && BY_RUN(ACKS) -> land(succeeded, 1); job[me].phase = acking; job[me].lease = false }
	:: d_step { FAULTS && DONE && BY_RUN(ACKS) -> fail(); job[me].phase = acking; job[me].lease = false }
	:: d_step { FAULTS && DONE && BY_RUN(ACKS) -> land(failed, 0); job[me].phase = acking; job[me].lease = false }
	/* or the request is */
	:: d_step { FAULTS && job[me].phase == running -> job[me].phase = acking; job[me].lease = false }
	:: d_step { FAULTS && job[me].phase == running && BY_RUN(RELEASES) ->
		row[job[me].row].lease = false;
		row[job[me].row].taken = false;
		forget_run() }
	:: d_step { DONE && (FAULTS || !BY_RUN(ACKS)) -> forget_run() } /* it dies, or is told that it lost the row */
	od
}

active proctype Operator() {
	do
	:: d_step { FAULTS && CANCELS(0) ->
		CHECK(I7, !(job[0].phase == running && job[0].n == row[0].n && job[0].row == 0) && !(job[1].phase == running && job[1].n == row[0].n && job[1].row == 0));
		leave(0, cancelled) }
	:: d_step { FAULTS && REPLAYS(0) -> row[0].attempts = 0; leave(0, pending) }
#if ROWS > 1
	:: d_step { FAULTS && CANCELS(1) ->
		CHECK(I7, !(job[0].phase == running && job[0].n == row[1].n && job[0].row == 1) && !(job[1].phase == running && job[1].n == row[1].n && job[1].row == 1));
		leave(1, cancelled) }
	:: d_step { FAULTS && REPLAYS(1) -> row[1].attempts = 0; leave(1, pending) }
#endif
	od
}

/* Whoever a row waits for, in calm times. */
#define RELAY_HAS(i, r) (relay[i].n && relay[i].row == r && relay[i].n == row[r].n && !relay[i].sent)
#define WORKER_HAS(i, r) (job[i].phase != idle && job[i].row == r && job[i].n == row[r].n)
#ifdef WEAK_KEEP
#define RENEWED(r) ((relay[0].sent && relay[0].row == r && relay[0].n == row[r].n) || (relay[1].sent && relay[1].row == r && relay[1].n == row[r].n))
#else
#define RENEWED(r) false
#endif
#define AWAITED(r) (queue[r].by[row[r].n] || RELAY_HAS(0, r) || RELAY_HAS(1, r) || WORKER_HAS(0, r) || WORKER_HAS(1, r) || RENEWED(r))

inline lapse(r) {
	row[r].lease = false;
	if :: job[0].row == r -> job[0].lease = false :: else fi;
	if :: job[1].row == r -> job[1].lease = false :: else fi
}

active proctype Database() {
	do
	:: d_step { row[0].status == claimed && row[0].lease && (FAULTS || !AWAITED(0)) -> lapse(0) }
#if ROWS > 1
	:: d_step { row[1].status == claimed && row[1].lease && (FAULTS || !AWAITED(1)) -> lapse(1) }
#endif
#if !defined(STEADY) && !defined(STILL)
	:: d_step { FAULTS && clock > 1 -> clock = 1 } /* it steps back */
#endif
	od
}

#define LOSE(r, k) d_step { FAULTS && queue[r].by[k] -> queue[r].by[k] = 0; queue[r].at[k] = 0 }

active proctype Queue() {
	do
	:: EACH_CLAIM(LOSE, 0)
#if ROWS > 1
	:: EACH_CLAIM(LOSE, 1)
#endif
	od
}

#ifdef CALM
active proctype Faults() { calm = true }

#if ROWS > 1
#define SETTLED (!OWED(0) && !OWED(1))
#else
#define SETTLED (!OWED(0))
#endif
ltl I5 { [] (calm -> <> SETTLED) }
#endif
