package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unit are the settings of a systemd unit, by section and name.
type unit map[string][]string

func loadUnit(t *testing.T, name string) unit {
	t.Helper()
	settings := unit{}
	section := ""
	for line := range strings.Lines(read(t, name)) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case !ok:
			t.Errorf("%s: %q is no setting", name, line)
		default:
			settings[section+"."+key] = append(settings[section+"."+key], value)
		}
	}
	return settings
}

// one returns the one value of a setting.
func (u unit) one(t *testing.T, key string) string {
	t.Helper()
	if len(u[key]) != 1 {
		t.Fatalf("%s is %q, want one value", key, u[key])
	}
	return u[key][0]
}

// environment reads the variables of waybill.env, as systemd and a shell do.
func environment(t *testing.T) map[string]string {
	t.Helper()
	variables := map[string]string{}
	for line := range strings.Lines(read(t, "waybill.env")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		unquoted, err := strconv.Unquote(value)
		if !ok || err != nil {
			t.Errorf("waybill.env: %q: want NAME=\"value\"", line)
		}
		variables[name] = unquoted
	}
	return variables
}

func TestSystemd(t *testing.T) {
	t.Parallel()
	reg := receivers(t, "receivers.yaml")
	for name, lane := range map[string]string{"waybill-relay@.service": "mail", "waybill-worker.service": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := loadUnit(t, name)
			exec := u.one(t, "Service.ExecStart")
			if strings.Contains(name, "@") != strings.Contains(exec, "%i") {
				t.Errorf("a template is for an instance: %s", exec)
			}
			l := &launch{T: t, argv: strings.Fields(strings.ReplaceAll(exec, "%i", lane)), env: environment(t)}
			if !strings.HasPrefix(l.argv[0], "/") {
				t.Errorf("%s is no absolute path", l.argv[0])
			}
			l.check()
			l.checkLanes(reg)
			seconds, err := strconv.Atoi(u.one(t, "Service.TimeoutStopSec"))
			if err != nil {
				t.Error(err)
			}
			l.checkGrace(time.Duration(seconds) * time.Second)
			if !slices.Contains(u["Service.EnvironmentFile"], "/etc/waybill/waybill.env") || u.one(t, "Service.Restart") != "on-failure" ||
				u.one(t, "Service.DynamicUser") != "yes" || u.one(t, "Service.ExecReload") != "/bin/kill -HUP $MAINPID" ||
				u.one(t, "Service.KillMode") != "mixed" || u.one(t, "Install.WantedBy") != "multi-user.target" {
				t.Errorf("the unit is %v", u)
			}
		})
	}
}

func TestCron(t *testing.T) {
	t.Parallel()
	jobs := regexp.MustCompile(`(?m)^\*/5 \* \* \* \*  waybill  set -a && \. (\S+) && exec ([^>\n]*)>/dev/null$`).FindAllStringSubmatch(read(t, "waybill.cron"), -1)
	if len(jobs) != 1 || jobs[0][1] != "/etc/waybill/waybill.env" {
		t.Fatalf("want one job with its variables: %q", jobs)
	}
	l := &launch{T: t, argv: strings.Fields(jobs[0][2]), env: environment(t)}
	l.check()
	l.checkLanes(receivers(t, "receivers.yaml"))
	if l.stays() {
		t.Errorf("%v does not end", l.argv)
	}
}

// The image is built from what there is, is static, and runs as nobody.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	for _, want := range []string{
		"ENV CGO_ENABLED=0", "./cmd/bridge ./cmd/worker", "FROM gcr.io/distroless/static-debian12:nonroot", "USER nonroot:nonroot",
		"COPY --from=build /out/bridge /out/worker /usr/local/bin/",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	for _, dir := range []string{"../cmd/bridge", "../cmd/worker"} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	toolchain := regexp.MustCompile(`FROM golang:(\S+) AS build`).FindStringSubmatch(text)
	required := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if toolchain == nil || required == nil || toolchain[1] != required[1] {
		t.Errorf("it is built with Go %v, and go.mod wants %v", toolchain, required)
	}
	l := &launch{T: t, argv: []string{"bridge", "--help"}}
	if !strings.Contains(text, `CMD ["bridge", "--help"]`) {
		t.Error("it runs something else by default")
	}
	l.command()
}

// What these files call Waybill's variables are such, in comments too, and the docs
// have every file.
func TestNamesAndDocs(t *testing.T) {
	t.Parallel()
	known := read(t, "../docs/operations.md")
	files, err := filepath.Glob("*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, variable := range regexp.MustCompile(`WAYBILL_[A-Z_]+`).FindAllString(read(t, name), -1) {
			if !strings.Contains(known, "`"+variable+"`") {
				t.Errorf("%s names %s, which the docs do not have", name, variable)
			}
		}
		if !strings.Contains(known, "`"+name+"`") && name != "Dockerfile.dockerignore" {
			t.Errorf("docs/operations.md does not have %s", name)
		}
	}
}
