package waybill_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// modulePath is the root package; everything else of the module is below it.
const modulePath = "github.com/waybill-go/waybill"

// listed is what `go list` says of a package. Imports are those of its own files,
// not of its tests.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Error      *struct{ Err string }
}

// importGraph is a module and all it rests on, by import path.
type importGraph map[string]listed

// The rules, which keep every adapter replaceable and the protocol in one place.
// Packages are named relative to the module, and "" is the root.
var (
	// narrow packages import the standard library and these, no more.
	narrow = map[string][]string{
		"":                    nil,
		"relay":               {modulePath, modulePath + "/sizing/window", "golang.org/x/sync/..."},
		"worker":              {modulePath, "golang.org/x/sync/..."},
		"worker/httpreceiver": {modulePath},
		"worker/execreceiver": {modulePath},
		"backend/local":       {modulePath},
		"metrics":             {modulePath, "github.com/prometheus/client_golang/..."},
		"sizing":              {modulePath, modulePath + "/sizing/window"},
		"sizing/window":       nil,
		"waybilltest":         {modulePath, modulePath + "/relay", modulePath + "/worker", modulePath + "/store/sqlite"},
		"internal/admin":      {modulePath},
		"internal/fault":      {modulePath},
		"internal/logtest":    nil,
		"internal/poll":       nil,
		"internal/sqlitetest": {modulePath, modulePath + "/store/sqlite"},
	}
	// support is what tests share, and nothing else may rest on.
	support = []string{"waybilltest", "internal/fault", "internal/logtest", "internal/poll", "internal/services", "internal/sqlitetest"}
	// suites are the conformance suites: no part of any adapter.
	suites = []string{"store/storetest", "backend/backendtest"}
	// wiring is where adapters meet: whole programs, and what puts them together.
	wiring = []string{"cli", "cmd", "bench", "examples", "internal/wire", "internal/e2e"}
	// clients says which adapters talk to a server by which library.
	clients = map[string][]string{
		"github.com/hibiken/asynq":       {"backend/asynq"},
		"github.com/redis/go-redis":      {"backend/asynq"},
		"github.com/riverqueue/river":    {"backend/river"},
		"github.com/rabbitmq/amqp091-go": {"backend/amqp"},
		"github.com/jackc/pgx":           {"store/postgres", "backend/river"},
		"modernc.org/sqlite":             {"store/sqlite", "backend/river"},
		"github.com/pressly/goose":       {"store/postgres", "store/sqlite"},

		"github.com/prometheus/client_golang": {"metrics"},
	}
)

// violations returns, sorted, every import of the module that breaks a rule.
func violations(graph importGraph) []string {
	var found []string
	for _, path := range slices.Sorted(maps.Keys(graph)) {
		name, ours := relative(path)
		if !ours {
			continue
		}
		pkg := graph[path]
		for _, imported := range pkg.Imports {
			if reason := forbidden(graph, name, imported); reason != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", path, imported, reason))
			}
		}
		if known := graph.adapters(path); len(known) > 1 && !within(name, wiring) {
			found = append(found, fmt.Sprintf("%s knows %s: only %s may know two adapters",
				path, strings.Join(known, " and "), strings.Join(wiring, ", ")))
		}
	}
	return found
}

// forbidden says why a package may not import another itself, or nothing.
func forbidden(graph importGraph, name, imported string) string {
	if allowed, ok := narrow[name]; ok && !graph[imported].Standard && !matches(imported, allowed) {
		return strings.Join(append([]string{"it may import the standard library"}, allowed...), ", ")
	}
	if target, ours := relative(imported); ours {
		adapter, isAdapter := adapterOf(name)
		switch {
		case slices.Contains(suites, name) && target != "":
			return "a conformance suite imports the root only"
		case isAdapter && target != "" && !below(target, adapter) && !below(target, "internal"):
			return "an adapter imports the root and its client"
		case within(target, support) && !within(name, support):
			return "test support is for tests"
		case within(target, wiring) && !within(name, wiring):
			return "programs import packages, not the other way round"
		}
		return ""
	}
	for client, adapters := range clients {
		if below(imported, client) && !within(name, adapters) && !within(name, wiring) && !below(name, "internal") {
			return "a client library is imported by its adapter"
		}
	}
	return ""
}

// adapters returns the adapters that a package knows, itself or by what it imports.
func (g importGraph) adapters(path string) []string {
	seen, known := map[string]bool{}, map[string]bool{}
	var visit func(string)
	visit = func(path string) {
		name, ours := relative(path)
		if !ours || seen[path] {
			return
		}
		seen[path] = true
		if adapter, ok := adapterOf(name); ok {
			known[adapter] = true
		}
		for _, imported := range g[path].Imports {
			visit(imported)
		}
	}
	visit(path)
	return slices.Sorted(maps.Keys(known))
}

// adapterOf returns the adapter that a package belongs to.
func adapterOf(name string) (string, bool) {
	parts := strings.Split(name, "/")
	if len(parts) < 2 || parts[0] != "store" && parts[0] != "backend" || within(name, suites) {
		return "", false
	}
	return parts[0] + "/" + parts[1], true
}

// relative returns a package's path in the module.
func relative(path string) (string, bool) {
	return strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/"), below(path, modulePath)
}

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// matches reports whether a path is one of those, or below one that ends in /...
func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		parent, tree := strings.CutSuffix(pattern, "/...")
		return path == pattern || tree && below(path, parent)
	})
}

func within(name string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return below(name, parent) })
}

func TestImportsKeepTheRules(t *testing.T) {
	t.Parallel()
	graph := listImports(t)
	if _, ok := graph[modulePath]; !ok || len(graph) < 50 {
		t.Fatalf("go list told of %d packages, and of the root: %t", len(graph), ok)
	}
	for _, violation := range violations(graph) {
		t.Error(violation)
	}
	// By no detour either: what the root rests on is the standard library.
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", modulePath)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || got[0] != modulePath {
		t.Errorf("the root rests on %v, want the standard library and itself", got)
	}
}

func listImports(t *testing.T) importGraph {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Error", "./...")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, complaints.String())
	}
	graph := importGraph{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatal(err)
		}
		if pkg.Error != nil {
			t.Fatalf("%s: %s", pkg.ImportPath, pkg.Error.Err)
		}
		graph[pkg.ImportPath] = pkg
	}
}

// The rules have teeth: each is broken once.
func TestImportRulesFindViolations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		importer, imported string
		want               bool
	}{
		{"", "context", false},
		{"", "golang.org/x/sync/errgroup", true},
		{"", "@/relay", true},
		{"", "@/internal/fault", true},
		{"relay", "@", false},
		{"relay", "golang.org/x/sync/errgroup", false},
		{"relay", "golang.org/x/term", true},
		{"relay", "@/worker", true},
		{"relay", "@/store/sqlite", true},
		{"relay", "@/backend/local", true},
		{"relay", "@/internal/fault", true},
		{"worker", "@", false},
		{"worker", "@/relay", true},
		{"worker", "@/store/postgres", true},
		{"worker", "@/worker/httpreceiver", true},
		{"worker/httpreceiver", "@", false},
		{"worker/httpreceiver", "net/http", false},
		{"worker/httpreceiver", "@/worker", true},
		{"worker/httpreceiver", "golang.org/x/sync/errgroup", true},
		{"store/postgres", "@", false},
		{"store/postgres", "@/store/postgres/migrations", false},
		{"store/postgres", "github.com/jackc/pgx/v5/pgxpool", false},
		{"store/postgres", "@/store/sqlite", true},
		{"store/postgres", "@/backend/river", true},
		{"store/postgres", "@/relay", true},
		{"store/postgres", "@/store/storetest", true},
		{"store/postgres", "@/ops", true},
		{"store/postgres", "modernc.org/sqlite", true},
		{"store/sqlite", "github.com/jackc/pgx/v5", true},
		{"store/sqlite", "modernc.org/sqlite/lib", false},
		{"backend/local", "@", false},
		{"backend/local", "golang.org/x/sync/errgroup", true},
		{"backend/asynq", "github.com/hibiken/asynq", false},
		{"backend/asynq", "github.com/redis/go-redis/v9", false},
		{"backend/asynq", "github.com/rabbitmq/amqp091-go", true},
		{"backend/asynq", "@/backend/local", true},
		{"store/storetest", "@", false},
		{"store/storetest", "@/store/sqlite", true},
		{"store/storetest", "@/backend/local", true},
		{"store/storetest", "@/internal/fault", true},
		{"backend/backendtest", "github.com/google/go-cmp/cmp", false},
		{"backend/backendtest", "github.com/hibiken/asynq", true},
		{"backend/backendtest", "@/relay", true},
		{"metrics", "@", false},
		{"metrics", "github.com/prometheus/client_golang/prometheus", false},
		{"metrics", "@/ops", true},
		{"metrics", "golang.org/x/sync/errgroup", true},
		{"sizing", "@", false},
		{"sizing", "@/sizing/window", false},
		{"sizing", "math/rand/v2", false},
		{"sizing", "@/relay", true},
		{"sizing", "golang.org/x/sync/errgroup", true},
		{"sizing/window", "math", false},
		{"sizing/window", "@", true},
		{"ops", "github.com/prometheus/client_golang/prometheus", true},
		{"cli", "github.com/prometheus/client_golang/prometheus/promhttp", false},
		{"internal/admin", "@", false},
		{"internal/admin", "@/metrics", true},
		{"web", "@/store/postgres", false}, // one adapter; two are told of below
		{"web", "github.com/jackc/pgx/v5", true},
		{"ops", "@/cli", true},
		{"cli", "@/store/postgres", false},
		{"cmd/bridge", "@/cli", false},
		{"bench", "github.com/jackc/pgx/v5", false},
		{"internal/services", "github.com/redis/go-redis/v9", false},
		{"internal/services", "@/cli", true},
		{"internal/services", "@/internal/fault", false},
		{"internal/fault", "@", false},
		{"internal/fault", "@/store/sqlite", true},
		{"internal/sqlitetest", "@/store/sqlite", false},
		{"internal/sqlitetest", "@/store/postgres", true},
		{"internal/sqlitetest", "@/relay", true},
		{"internal/logtest", "log/slog", false},
		{"internal/logtest", "@", true},
		{"internal/poll", "@", true},
		{"store/sqlite", "@/internal/sqlitetest", true},
		{"backend/asynq", "@/internal/poll", true},
		{"internal/wire", "@/internal/services", true},
		{"cli", "@/internal/logtest", true},
	} {
		full := func(path string) string { return strings.Replace(path, "@", modulePath, 1) }
		importer, imported := strings.TrimSuffix(full("@/"+c.importer), "/"), full(c.imported)
		graph := importGraph{
			importer: {ImportPath: importer, Imports: []string{imported}},
			imported: {ImportPath: imported, Standard: !strings.Contains(imported, ".")},
		}
		if found := violations(graph); (len(found) > 0) != c.want {
			t.Errorf("%s imports %s: violations %q, want some: %t", importer, imported, found, c.want)
		}
	}
}

func TestImportRulesFindTwoAdapters(t *testing.T) {
	t.Parallel()
	graph := importGraph{}
	add := func(name string, imports ...string) {
		for i := range imports {
			imports[i] = modulePath + "/" + imports[i]
		}
		graph[modulePath+"/"+name] = listed{ImportPath: modulePath + "/" + name, Imports: imports}
	}
	add("store/sqlite")
	add("backend/local")
	add("ops", "store/sqlite")
	add("web", "ops", "backend/local")                     // two, one of them by a detour
	add("internal/probe", "store/sqlite")                  // one
	add("internal/rig", "internal/probe", "backend/local") // two
	add("cli", "store/sqlite", "backend/local")
	add("internal/wire", "store/sqlite", "backend/local")
	add("cmd/bridge", "cli")
	add("examples/shop", "internal/wire")
	const may = ": only cli, cmd, bench, examples, internal/wire, internal/e2e may know two adapters"
	want := []string{
		modulePath + "/internal/rig knows backend/local and store/sqlite" + may,
		modulePath + "/web knows backend/local and store/sqlite" + may,
	}
	if diff := cmp.Diff(want, violations(graph)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
