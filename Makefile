# Everything needs Go and make only; `make services`, and what rests on it,
# installs the rest from Debian packages.

GO     ?= go
BIN    ?= bin
SERVICES = ./internal/services/services.sh

# staticcheck is fetched by the Go toolchain, pinned, and kept out of go.mod.
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Flags for go test: PKG=./relay RUN=TestWindow narrow it, ARGS adds flags.
PKG    ?= ./...
RUN    ?= .
ARGS   ?=

# What `make demo` runs on: asynq, river or local.
BACKEND ?= asynq

# SQLite is C that was translated to Go: its pointers are no business of the race
# build's pointer checks, which triple what it costs.
RACEFLAGS = -gcflags=modernc.org/...=-d=checkptr=0

# A recipe that needs the servers begins with this: the three
# WAYBILL_TEST_* variables are then in its environment.
WITH_SERVICES = env="$$($(SERVICES) up)" || exit 1; eval "$$env"

.DEFAULT_GOAL := help
.PHONY: help demo build test sqlmodule lint model bench bench-backends incident soak services services-stop

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: ## watch deliveries go through a queue (BACKEND=asynq, river or local; ARGS=--json)
	@$(GO) run ./cmd/bridge demo --backend '$(BACKEND)' $(ARGS)

build: ## bin/bridge and bin/worker
	$(GO) build -trimpath -o $(BIN)/ ./cmd/bridge ./cmd/worker

# The servers come first because they bring the C compiler, which decides how
# everything after it is built. Results are never taken from the cache: they
# depend on servers that the cache knows nothing about.
test: ## vet, gofmt, staticcheck, then every test under the race detector
	@$(WITH_SERVICES); $(MAKE) --no-print-directory lint && \
	$(GO) test -race $(RACEFLAGS) -count 1 -timeout 10m -run '$(RUN)' $(ARGS) $(PKG) && \
	if [ '$(PKG)' = ./... ]; then $(MAKE) --no-print-directory sqlmodule; fi

# GORM, sqlc and bun fire in their own transactions, in a module that no user of this
# one pulls. Narrow it like the rest: make sqlmodule RUN=GORM.
sqlmodule: ## the test module of the libraries over database/sql
	@$(WITH_SERVICES); cd internal/sqlmodule && $(GO) vet ./... && \
	$(GO) test -race -count 1 -timeout 5m -run '$(RUN)' ./...

lint: ## go vet, gofmt and staticcheck
	$(GO) vet -tags soak ./...
	@out="$$(gofmt -l .)"; [ -z "$$out" ] || { echo "run gofmt -w on:" $$out >&2; exit 1; }
	$(STATICCHECK) -tags soak ./...

model: ## every state of the protocol's model, and each guard missed in it (ARGS=full: larger, minutes)
	@$(SERVICES) spin && docs/protocol/check.sh $(ARGS)

bench: ## fire to ack, deliveries per second, beside the same SQL alone
	@$(WITH_SERVICES); $(GO) run ./bench $(ARGS)

bench-backends: ## the same through every backend, one beside the other
	@$(WITH_SERVICES); $(GO) run ./bench -backends $(ARGS)

incident: ## a burst that outlasts its lease, without the window and with it (ARGS=-all: with every fault)
	@$(WITH_SERVICES); $(GO) run ./bench/incident $(ARGS)

soak: ## the long fault runs
	@$(WITH_SERVICES); $(GO) test -tags soak -p 1 -timeout 2h -run '$(RUN)' $(ARGS) $(PKG)

services: ## start PostgreSQL, Redis and RabbitMQ on loopback; prints export lines
	@$(SERVICES) up

services-stop: ## stop the three servers
	@$(SERVICES) stop
