#!/usr/bin/env bash
# Checks the model beside it, every state of it, and then the model with each guard
# weakened, of which each must break an invariant. Prints a table; fails if any line
# of it is not as expected.
#
#   check.sh         the quick form: one row, about a minute
#   check.sh brief   the same of all guards, and of a few weakened ones
#   check.sh full    two rows, and more claims of one: some minutes and gigabytes
#
# It needs spin and a C compiler: `make model` installs both.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
model=$here/waybill.pml
cc=${CC:-gcc}
die() { printf 'model: %s\n' "$*" >&2; exit 1; }
command -v spin >/dev/null || die "spin is not installed: run 'make model', or 'apt-get install spin'"
command -v "$cc" >/dev/null || die "no C compiler $cc: run 'make model', or 'apt-get install gcc libc6-dev'"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

# search FLAGS... builds a verifier with these flags of the C compiler and of itself
# ("pan:" begins the latter), and leaves what it says in out.
search() {
	local build=() args=()
	while [ $# -gt 0 ]; do
		case $1 in
		-D* | -O*) build+=("$1") ;;
		*) args+=("$1") ;;
		esac
		shift
	done
	"$cc" -w -DNOFAIR "${build[@]}" -o pan pan.c
	./pan -n "${args[@]}" >out
}

# check EXPECTED WHAT MACROS... checks the model with these macros. EXPECTED is the
# invariant that breaks, or "holds". A guard that is weakened is sought breadth first,
# which finds the shortest way to the fault.
check() {
	local expected=$1 what=$2 found states steps begun=$SECONDS
	shift 2
	spin -P"$cc -std=gnu99 -E -x c" -a "$@" "$model" >spin.out 2>&1 || { cat spin.out >&2; die "$what: spin refuses the model"; }
	case "$expected $*" in
	holds*CALM*) search -O1 -a -m100000 -w20 ;;
	*CALM*) search -O0 -a -m100000 -w18 ;;
	*ROWS=2*STILL*) search -O2 -DSAFETY -DCOLLAPSE -E -m100000 -w26 ;;
	holds*) search -O1 -DSAFETY -E -m100000 -w21 ;;
	*) search -O0 -DSAFETY -DBFS -E -m100000 -w18 ;;
	esac
	found=holds
	steps=-
	if grep -q 'errors: [1-9]' out; then
		found=$(sed -n 's/^pan:1: assertion violated \(I[0-9]\) .*/\1/p; s/^pan:1: acceptance cycle.*/I5/p' out)
		steps=$(sed -n 's/^pan:1: .*(at depth \([0-9]*\)).*/\1/p' out)
		[ "$found" = I5 ] && steps=- || steps=$((steps + 1)) # from the state, to the step out of it
	elif ! grep -q 'errors: 0' out || grep -qE 'not completed|max search depth too small|out of memory|exceeds' out; then
		found=unknown
	elif grep -E 'state [0-9]+, "' out | grep -qv -e '-end-'; then
		found=unused # a step that nobody ever takes shows nothing
	fi
	states=$(sed -n 's/^ *\([0-9e.+]*\) states, stored.*/\1/p' out)
	printf '%-52s %-7s %-7s %11s %6s %5s\n' "$what" "$expected" "${found:-?}" "${states:-?}" "$steps" $((SECONDS - begun))
	if [ "${found:-?}" != "$expected" ] || [ -z "$states" ]; then
		printf 'model: %s: %s was expected; the verifier said:\n' "$what" "$expected" >&2
		grep -v '^ *$' out >&2 || true
		failed=1
	fi
}

quick() {
	check holds "all guards" -DCLAIMS=4
	check holds "all guards, ids shared" -DSHARED -DCLAIMS=5
	check holds "all guards, faults that end (I5)" -DCALM -DCLAIMS=5
	weakened
}

brief() {
	check holds "all guards" -DCLAIMS=4
	check holds "all guards, faults that end (I5)" -DCALM -DCLAIMS=5
	check I3 "take: claimed_at not compared" -DWEAK_TAKE_AT -DCLAIMS=4
	check I2 "ack: id and status only" -DWEAK_ACK_CLAIM -DCLAIMS=4
	check I5 "claim: never of lapsed rows" -DWEAK_NO_LAPSED -DCALM -DCLAIMS=5
}

full() {
	check holds "all guards" -DCLAIMS=5
	check holds "all guards, ids shared" -DSHARED -DCLAIMS=6
	check holds "all guards, faults that end (I5)" -DCALM -DCLAIMS=6
	check holds "all guards, faults that end (I5), ids shared" -DSHARED -DCALM -DCLAIMS=6
	check holds "two rows, faults that end (I5), ids shared" -DROWS=2 -DSHARED -DCALM -DCLAIMS=3
	check holds "two rows, ids shared, the clock stands still" -DROWS=2 -DSHARED -DSTILL -DCLAIMS=3
	weakened
}

weakened() {
	check I1 "take: id and status only" -DWEAK_TAKE_CLAIM -DCLAIMS=4
	check I3 "take: claimed_at not compared" -DWEAK_TAKE_AT -DCLAIMS=4
	check I1 "take: does not move the claim" -DWEAK_TAKE_KEEPS -DCLAIMS=4
	check I3 "take: reads the row, then writes it" -DWEAK_TAKE_TWICE -DCLAIMS=4
	check I4 "ack: id only" -DWEAK_ACK_ID -DCLAIMS=4
	check I4 "ack: status not compared" -DWEAK_ACK_STATUS -DCLAIMS=4
	check I2 "ack: id and status only" -DWEAK_ACK_CLAIM -DCLAIMS=4
	check I2 "ack: claimed_at not compared, ids shared" -DWEAK_ACK_AT -DSHARED -DCLAIMS=4
	check holds "ack: claimed_at not compared, an id for each run" -DWEAK_ACK_AT -DCLAIMS=4
	check I1 "claim: of rows whose leases run" -DWEAK_LIVE -DCLAIMS=4
	check I7 "cancel: of claimed rows" -DWEAK_CANCEL -DCLAIMS=4
	check I7 "replay: of claimed rows" -DWEAK_REPLAY -DCLAIMS=4
	check I1 "extend: without the claim" -DWEAK_EXTEND -DCLAIMS=4
	check I1 "give back: without the claim" -DWEAK_GIVE_BACK -DCLAIMS=4
	check I3 "stamp: now, and the clock steps back" -DWEAK_STAMP -DCLAIMS=4
	check holds "stamp: now, and the clock never steps back" -DWEAK_STAMP -DSTEADY -DCLAIMS=4
	check I3 "stamp: claimed_at null once the row is not claimed" -DWEAK_NULL -DCLAIMS=4
	check I5 "claim: never of lapsed rows" -DWEAK_NO_LAPSED -DCALM -DCLAIMS=5
	check I5 "relay: renews what waits in the queue, for ever" -DWEAK_KEEP -DCALM -DCLAIMS=5
}

printf '%-52s %-7s %-7s %11s %6s %5s\n' model expects found states steps s
case ${1:-quick} in
brief | quick | full) "${1:-quick}" ;;
*) die "usage: check.sh [brief|quick|full]" ;;
esac
[ "$failed" -eq 0 ] || die "not as expected"
