#!/usr/bin/env bash
# The servers that the tests and the benchmark run against: PostgreSQL, Redis
# and RabbitMQ, on loopback only, on ports of our own.
#
#   services.sh up      install what is missing, start what is not running, and
#                       print three "export NAME=URL" lines on standard output
#   services.sh stop    stop what "up" started
#   services.sh spin    install what checks docs/protocol, if it is missing
#
# A server named by WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS or
# WAYBILL_TEST_AMQP is used as it is; nothing is installed or started for it.
# RabbitMQ needs its management plugin, on its port + 10000 as is usual (or at
# WAYBILL_TEST_AMQP_API), because each test gets a virtual host through it.
#
# State lives outside the checkout, in one directory for each user, so that
# several checkouts share one set of servers and so that PostgreSQL, which
# refuses to run as root, can reach it. WAYBILL_SERVICES_DIR moves it.
# Everything in there may be deleted after "stop": it holds test data only.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${WAYBILL_SERVICES_DIR:-/var/tmp/waybill-services-$(id -u)}

say() { printf 'services: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# other USER: we are root and must become USER to run a server. A Redis that no
# package installed has no user of its own; it runs as we do.
other() { [ "$(id -u)" -eq 0 ] && id -u "$1" >/dev/null 2>&1; }

# as USER CMD... runs CMD as USER when we are root, and as ourselves otherwise.
as() {
	local user=$1
	shift
	if other "$user"; then
		setpriv --reuid "$user" --regid "$user" --init-groups --inh-caps=-all -- "$@"
	else
		"$@"
	fi
}

# give USER PATH... hands files to the user that a server runs as.
give() {
	local user=$1
	shift
	! other "$user" || chown -R "$user:$user" "$@"
}

# taken PORT: something listens there.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free PORT: nobody has it, nor the ports beside it that RabbitMQ needs too.
free() { ! taken "$1" && ! taken $(($1 + 1)) && ! taken $(($1 + 2)) && ! taken $(($1 + 10000)); }

# pick NAME OFFSET prints and keeps the port of the last time if it is free, or
# else the first free one of 21000+OFFSET, 20000+OFFSET, ... All lie below the
# range from which Linux takes ports for outgoing connections, so that no
# client of the moment can sit on one of them.
pick() {
	local port base
	port=$(port_of "$1") && [ -n "$port" ] && free "$port" && echo "$port" && return
	for base in 21000 20000 19000 18000 17000 16000; do
		port=$((base + $2))
		if free "$port"; then
			echo "$port" >"$state/$1/port"
			echo "$port"
			return
		fi
	done
	say "no free port for $1 among 16000+$2, 17000+$2, ... 21000+$2"
	return 1
}

port_of() { cat "$state/$1/port" 2>/dev/null; }

# lives PID NAME: that process runs and is what we think it is. One that is dead
# and that nobody waited for still has its name, but no command line.
lives() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ] && grep -qa . "/proc/$1/cmdline" 2>/dev/null; }

# alive PIDFILE NAME: the same of the process in a file, whose number may belong
# to anybody after a restart of the machine.
alive() {
	local pid
	pid=$(head -n 1 "$1" 2>/dev/null) && [ -n "$pid" ] && lives "$pid" "$2"
}

# end PIDFILE NAME SIGNAL stops that process: politely for 20 s, then for good.
end() {
	alive "$1" "$2" || return 0
	local pid i
	pid=$(head -n 1 "$1")
	kill -s "$3" "$pid" 2>/dev/null || return 0
	for ((i = 0; i < 200; i++)); do
		lives "$pid" "$2" || return 0
		sleep 0.1
	done
	kill -KILL "$pid" 2>/dev/null || true
}

# await SECONDS CMD... polls until CMD succeeds.
await() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.1
	done
}

. "$here/install.sh"
. "$here/servers.sh"

prepare() {
	mkdir -p "$state" 2>/dev/null || die "cannot create $state: set WAYBILL_SERVICES_DIR to a directory that can be written"
	[ -O "$state" ] || die "$state belongs to another user: set WAYBILL_SERVICES_DIR to a directory of your own"
	chmod 755 "$state"
	# One at a time; whoever comes second finds the servers running. The lock
	# is descriptor 9, which no server may inherit: it would hold it for ever.
	exec 9>"$state/lock"
	flock -w 600 9 || die "another 'make services' has held $state/lock for ten minutes"
	if [ ! -s "$state/secret" ]; then
		(umask 077 && od -An -N12 -tx1 /dev/urandom | tr -d ' \n' >"$state/secret")
	fi
	secret=$(cat "$state/secret")
}

# ensure NAME VARIABLE returns at once when the server answers, and starts it
# otherwise. One that runs and is slow to answer is given time: the machine may
# be busy with the very tests that a restart would ruin. A start that fails is
# tried once more with the data thrown away: a machine that lost power may leave
# files that no server can open.
ensure() {
	"$1_answers" && return
	if "$1_runs"; then
		say "waiting for $1"
		await 60 "$1_answers" && return
	fi
	say "starting $1"
	"$1_start" && return
	say "$1 did not start; once more from empty data"
	"$1_stop"
	rm -rf "${state:?}/$1"
	"$1_start" || die "$1 did not start: see $state/$1/log, or set $2 to the URL of a server of your own"
}

up() {
	local wanted=() pids=() failed=0 pid
	[ -n "${WAYBILL_TEST_POSTGRES:-}" ] || wanted+=(postgres)
	[ -n "${WAYBILL_TEST_REDIS:-}" ] || wanted+=(redis)
	[ -n "${WAYBILL_TEST_AMQP:-}" ] || wanted+=(rabbitmq)
	install_missing "${wanted[@]}"
	if [ "${#wanted[@]}" -gt 0 ]; then
		prepare
		for name in "${wanted[@]}"; do
			ensure "$name" "$(variable "$name")" >&2 &
			pids+=($!)
		done
		for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
		[ "$failed" -eq 0 ] || exit 1
	fi
	print_export WAYBILL_TEST_POSTGRES "${WAYBILL_TEST_POSTGRES:-$(postgres_url)}"
	print_export WAYBILL_TEST_REDIS "${WAYBILL_TEST_REDIS:-$(redis_url)}"
	print_export WAYBILL_TEST_AMQP "${WAYBILL_TEST_AMQP:-$(rabbitmq_url)}"
}

variable() {
	case $1 in
	postgres) echo WAYBILL_TEST_POSTGRES ;;
	redis) echo WAYBILL_TEST_REDIS ;;
	rabbitmq) echo WAYBILL_TEST_AMQP ;;
	esac
}

# print_export NAME URL prints a line for a shell's eval, quoted where needed.
print_export() {
	if [[ $2 =~ ^[A-Za-z0-9_@%+=:,./?-]+$ ]]; then
		printf 'export %s=%s\n' "$1" "$2"
	else
		printf 'export %s=%q\n' "$1" "$2"
	fi
}

stop() {
	[ -d "$state" ] || return 0
	prepare
	for name in postgres redis rabbitmq; do "${name}_stop" >&2; done
	say "stopped"
}

case ${1:-} in
up | stop) "$1" ;;
spin) install_spin ;;
*) die "usage: services.sh up|stop|spin" ;;
esac
