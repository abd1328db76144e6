package deploy_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

type compose struct {
	Services map[string]service
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Volumes     []string
	Healthcheck struct{ Test []string }
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Grace       string                                `yaml:"stop_grace_period"`
}

func TestCompose(t *testing.T) {
	t.Parallel()
	files := load[compose](t, "compose.yaml")
	if len(files) != 1 {
		t.Fatalf("%d documents", len(files))
	}
	services := files[0].Services
	if got, want := slices.Sorted(maps.Keys(services)), []string{"migrate", "postgres", "redis", "relay", "worker"}; !slices.Equal(got, want) {
		t.Fatalf("the services are %v, want %v", got, want)
	}
	reg := receivers(t, "receivers.yaml")
	for name, s := range services {
		for other, on := range s.DependsOn {
			if _, ok := services[other]; !ok || on.Condition == "" {
				t.Errorf("%s depends on %s: %+v", name, other, on)
			}
		}
		if s.Build.Dockerfile == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("../" + s.Build.Dockerfile); err != nil || s.Build.Context != ".." {
				t.Errorf("it is built from %+v: %v", s.Build, err)
			}
			l := &launch{T: t, argv: s.Command, env: s.Environment}
			l.check()
			if _, path, ok := strings.Cut(s.Volumes[0], ":"); !ok || strings.TrimSuffix(path, ":ro") != l.value("receivers") {
				t.Errorf("the receivers are read from %s, and mounted as %v", l.value("receivers"), s.Volumes)
			}
			if !l.stays() {
				return
			}
			l.checkLanes(reg)
			grace, err := time.ParseDuration(s.Grace)
			if err != nil {
				t.Error(err)
			}
			l.checkGrace(grace)
			if s.DependsOn["migrate"].Condition != "service_completed_successfully" {
				t.Errorf("it does not wait for the schema: %v", s.DependsOn)
			}
			if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" {
				t.Fatalf("its health is asked by %v", s.Healthcheck.Test)
			}
			health := &launch{T: t, argv: s.Healthcheck.Test[1:]}
			health.check()
			if health.adminPort() != l.adminPort() || l.adminPort() == "" {
				t.Errorf("health asks port %s, and the endpoint is at %s", health.adminPort(), l.adminPort())
			}
		})
	}
}
