# Installing the servers from Debian packages. Sourced by services.sh.

# postgres_bin prints the directory of the newest server programs, if any.
postgres_bin() {
	local dir
	dir=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	if [ -x "$dir/initdb" ]; then
		echo "$dir"
	elif dir=$(command -v initdb); then
		dirname "$dir"
	fi
}

# rabbitmq_bin is the server itself, not Debian's wrapper in sbin, which starts
# it only as its own user and with the distribution's settings.
rabbitmq_bin=/usr/lib/rabbitmq/bin/rabbitmq-server

has_compiler() { { command -v "${CC:-gcc}" && [ -e /usr/include/stdlib.h ]; } >/dev/null; }

# install_spin installs what checks docs/protocol, and nothing else.
install_spin() {
	local want=()
	command -v spin >/dev/null || want+=(spin)
	has_compiler || want+=(gcc libc6-dev)
	[ "${#want[@]}" -gt 0 ] || return 0
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		die "missing ${want[*]}: run 'apt-get install ${want[*]}' as root"
	fi
	apt_install "${want[@]}"
}

# install_missing SERVER... installs the packages of these servers, of the
# programs that tests start privately (PostgreSQL, PgBouncer and Redis, wanted even
# when the shared servers are somebody else's), the C compiler that go test -race
# needs, and Spin, which checks docs/protocol. Only a server that is to be started is
# a must.
install_missing() {
	local must=() want=()
	[ -n "$(postgres_bin)" ] || want+=(postgresql)
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || want+=(pgbouncer)
	command -v redis-server >/dev/null || want+=(redis-server)
	has_compiler || want+=(gcc libc6-dev)
	command -v spin >/dev/null || want+=(spin)
	case " $* " in *" postgres "*) [ -n "$(postgres_bin)" ] || must+=(postgresql) ;; esac
	case " $* " in *" redis "*) command -v redis-server >/dev/null || must+=(redis-server) ;; esac
	case " $* " in *" rabbitmq "*) [ -x "$rabbitmq_bin" ] || { must+=(rabbitmq-server) want+=(rabbitmq-server); } ;; esac
	[ "${#want[@]}" -gt 0 ] || return 0

	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		apt_install "${want[@]}"
	elif [ "${#must[@]}" -gt 0 ]; then
		die "missing ${must[*]}: run 'apt-get install ${want[*]}' as root, or set WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and WAYBILL_TEST_AMQP to servers of your own"
	else
		say "missing ${want[*]}: some tests need them"
	fi
}

# apt_install PACKAGE... installs without starting anything: the packages' own
# units listen on every address of the machine, and are of no use here.
apt_install() {
	say "installing $*"
	local policy=/usr/sbin/policy-rc.d log
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
		# Expanded now: the name is local, and the trap outlives it.
		trap "rm -f $policy" EXIT
	fi
	log=$(mktemp)
	# The machine would do to lose this if it crashed now: no waiting for the disk.
	local apt=(apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io)
	local ok=yes
	{
		"${apt[@]}" update &&
			DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "$@"
	} </dev/null >"$log" 2>&1 || ok=""
	[ -n "$ok" ] || die "apt-get could not install $*: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log") (all of it is in $log)"
	rm -f "$log"
	keep_units_down "$@"
}

# keep_units_down PACKAGE... sees to it that the next start of the machine does
# not bring up the units of the packages that we have just installed.
keep_units_down() {
	command -v systemctl >/dev/null || return 0
	local package
	for package in "$@"; do
		case $package in
		postgresql) systemctl --quiet disable postgresql.service ;;
		pgbouncer) systemctl --quiet disable pgbouncer.service ;;
		redis-server) systemctl --quiet disable redis-server.service ;;
		rabbitmq-server) systemctl --quiet disable rabbitmq-server.service epmd.service epmd.socket ;;
		esac >/dev/null 2>&1 || true
	done
}
