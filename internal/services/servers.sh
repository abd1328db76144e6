# The three servers: for each, its URL, does it run, does it answer, start, stop.
# Sourced by services.sh. Each keeps everything in $state/NAME, and runs as the
# user that its Debian package brought when we are root.

# PostgreSQL -----------------------------------------------------------------

postgres_url() { echo "postgres://waybill:$secret@127.0.0.1:$(port_of postgres)/postgres?sslmode=disable"; }

postgres_runs() { alive "$state/postgres/data/postmaster.pid" postgres; }

postgres_answers() {
	local port
	port=$(port_of postgres) || return 1
	PGPASSWORD=$secret PGCONNECT_TIMEOUT=2 "$(postgres_bin)/psql" -X -h 127.0.0.1 -p "$port" \
		-U waybill -d postgres -Atc 'SELECT 1' >/dev/null 2>&1
}

postgres_start() {
	local dir=$state/postgres bin port version
	local data=$dir/data
	bin=$(postgres_bin)
	mkdir -p "$dir"
	postgres_stop
	version=$("$bin/postgres" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/')
	[ "$(cat "$data/PG_VERSION" 2>/dev/null)" = "$version" ] || rm -rf "$data"
	port=$(pick postgres 432) || return 1
	if [ ! -d "$data" ]; then
		(umask 077 && echo "$secret" >"$dir/password")
		give postgres "$dir"
		as postgres "$bin/initdb" -D "$data" -U waybill -A scram-sha-256 --pwfile="$dir/password" \
			-E UTF8 --locale=C.UTF-8 -N >"$dir/log" 2>&1 || return 1
	fi
	# fsync stays on, so that the benchmark's figures are those of a database
	# that keeps its promises. The rest is room for many tests at once.
	cat >"$data/postgresql.conf" <<-CONF
		listen_addresses = '127.0.0.1'
		port = $port
		unix_socket_directories = ''
		max_connections = 300
		shared_buffers = 256MB
		max_wal_size = 2GB
		checkpoint_timeout = 15min
		log_line_prefix = '%m [%p] %d '
	CONF
	give postgres "$dir"
	# The number of a server that died with the machine may be another's now;
	# PostgreSQL would take that one for itself.
	postgres_runs || rm -f "$data/postmaster.pid"
	as postgres "$bin/pg_ctl" -D "$data" -l "$dir/log" -w -t 120 start </dev/null >/dev/null 2>&1 9>&- &&
		postgres_answers
}

# INT is PostgreSQL's fast stop; TERM would wait for every client to leave.
postgres_stop() { end "$state/postgres/data/postmaster.pid" postgres INT; }

# Redis ----------------------------------------------------------------------

redis_url() { echo "redis://default:$secret@127.0.0.1:$(port_of redis)/0"; }

redis_runs() { alive "$state/redis/pid" redis-server; }

redis_answers() {
	local port
	port=$(port_of redis) || return 1
	[ "$(REDISCLI_AUTH=$secret timeout 2 redis-cli -h 127.0.0.1 -p "$port" ping 2>/dev/null)" = PONG ]
}

redis_start() {
	local dir=$state/redis port
	mkdir -p "$dir"
	redis_stop
	port=$(pick redis 379) || return 1
	(umask 077 && cat >"$dir/redis.conf") <<-CONF
		bind 127.0.0.1
		port $port
		requirepass $secret
		dir $dir
		pidfile $dir/pid
		logfile $dir/log
		daemonize yes
		save ""
		appendonly no
		maxmemory-policy noeviction
		maxclients 4000
	CONF
	give redis "$dir"
	as redis redis-server "$dir/redis.conf" </dev/null >/dev/null 2>&1 9>&- || return 1
	await 20 redis_answers
}

redis_stop() { end "$state/redis/pid" redis-server TERM; }

# RabbitMQ -------------------------------------------------------------------

# The management interface is at this port + 10000, as with RabbitMQ's own
# ports; the node's own traffic and its port mapper are at + 1 and + 2.
rabbitmq_url() { echo "amqp://waybill:$secret@127.0.0.1:$(port_of rabbitmq)/"; }

rabbitmq_runs() { alive "$state/rabbitmq/pid" beam.smp; }

# The AMQP listener opens last, the management interface says it is ours.
rabbitmq_answers() {
	local port
	port=$(port_of rabbitmq) || return 1
	taken "$port" && rabbitmq_whoami "$port"
}

rabbitmq_whoami() {
	local line
	{
		exec 3<>"/dev/tcp/127.0.0.1/$(($1 + 10000))"
		printf 'GET /api/whoami HTTP/1.0\r\nAuthorization: Basic %s\r\n\r\n' \
			"$(printf 'waybill:%s' "$secret" | base64)" >&3
		read -r -t 5 line <&3
		exec 3>&-
	} 2>/dev/null || return 1
	[[ $line == *" 200 "* ]]
}

rabbitmq_start() {
	local dir=$state/rabbitmq port
	mkdir -p "$dir"
	rabbitmq_stop
	port=$(pick rabbitmq 672) || return 1
	(umask 077 && cat >"$dir/rabbitmq.conf") <<-CONF
		listeners.tcp.1 = 127.0.0.1:$port
		management.tcp.ip = 127.0.0.1
		management.tcp.port = $((port + 10000))
		default_user = waybill
		default_pass = $secret
		disk_free_limit.absolute = 50MB
		log.file.level = warning
	CONF
	echo '[rabbitmq_management].' >"$dir/enabled_plugins"
	give rabbitmq "$dir"
	# Busy-waiting schedulers (sbwt) would take a core from the tests for
	# nothing. Debian's rabbitmq-env.conf is kept out.
	as rabbitmq env -i PATH="$PATH" HOME="$dir" LANG=C.UTF-8 \
		RABBITMQ_CONF_ENV_FILE=/dev/null \
		RABBITMQ_NODENAME=waybill@localhost \
		RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" \
		RABBITMQ_ENABLED_PLUGINS_FILE="$dir/enabled_plugins" \
		RABBITMQ_MNESIA_BASE="$dir/mnesia" \
		RABBITMQ_LOG_BASE="$dir" \
		RABBITMQ_GENERATED_CONFIG_DIR="$dir/config" \
		RABBITMQ_PID_FILE="$dir/pid" \
		RABBITMQ_DIST_PORT=$((port + 1)) \
		ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port + 2)) \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none" \
		setsid nohup "$rabbitmq_bin" </dev/null >"$dir/log" 2>&1 9>&- &
	await 120 rabbitmq_answers
}

rabbitmq_stop() {
	local port
	end "$state/rabbitmq/pid" beam.smp TERM
	# epmd leaves by itself only when asked, and only once no node is left.
	if port=$(port_of rabbitmq) && taken $((port + 2)); then
		ERL_EPMD_PORT=$((port + 2)) epmd -kill >/dev/null 2>&1 || true
	fi
}
