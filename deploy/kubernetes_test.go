package deploy_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// object is what these tests look at of a Kubernetes object.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	Grace           int `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

type container struct {
	Command, Args []string
	Env           []struct {
		Name, Value string
		ValueFrom   any `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet        struct{ Path, Port string } `yaml:"httpGet"`
	TimeoutSeconds int                         `yaml:"timeoutSeconds"`
}

func (c container) launch(t *testing.T) *launch {
	l := &launch{T: t, argv: append(c.Command, c.Args...), env: map[string]string{}}
	for _, variable := range c.Env {
		l.env[variable.Name] = variable.Value
	}
	l.check()
	return l
}

// checkSafety says what a container needs none of.
func checkSafety(t *testing.T, p pod) {
	t.Helper()
	c := p.Containers[0]
	safe := c.SecurityContext
	if !p.SecurityContext.RunAsNonRoot || !safe.ReadOnlyRootFilesystem || safe.AllowPrivilegeEscalation == nil || *safe.AllowPrivilegeEscalation ||
		len(safe.Capabilities.Drop) != 1 || safe.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container may more than it needs: %+v", safe)
	}
	if c.Resources.Requests["memory"] == "" || c.Resources.Requests["cpu"] == "" || c.Resources.Limits["memory"] == "" {
		t.Errorf("the container's resources are %+v", c.Resources)
	}
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	objects := load[object](t, "kubernetes.yaml")
	config := objects[0]
	if config.Kind != "ConfigMap" {
		t.Fatalf("the first object is a %s, want the receivers", config.Kind)
	}
	file := filepath.Join(t.TempDir(), "receivers.yaml")
	if err := os.WriteFile(file, []byte(config.Data["receivers.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	reg := receivers(t, file)
	programs := map[string]int{}
	served := map[string]bool{}
	for _, deployment := range objects[1:] {
		t.Run(deployment.Metadata.Name, func(t *testing.T) {
			template := deployment.Spec.Template
			if deployment.Kind != "Deployment" || len(template.Spec.Containers) != 1 || deployment.Spec.Replicas < 1 {
				t.Fatalf("a %s with %d containers and %d replicas", deployment.Kind, len(template.Spec.Containers), deployment.Spec.Replicas)
			}
			for key, value := range deployment.Spec.Selector.MatchLabels {
				if template.Metadata.Labels[key] != value {
					t.Errorf("pods are selected by %s=%s and labelled %v", key, value, template.Metadata.Labels)
				}
			}
			checkSafety(t, template.Spec)
			c := template.Spec.Containers[0]
			l := c.launch(t)
			l.checkGrace(time.Duration(template.Spec.Grace) * time.Second)
			l.checkLanes(reg)
			checkAdmin(t, c, l, template.Metadata.Annotations)
			if len(template.Spec.Volumes) != 1 || template.Spec.Volumes[0].ConfigMap.Name != config.Metadata.Name ||
				len(c.VolumeMounts) != 1 || filepath.Dir(l.value("receivers")) != c.VolumeMounts[0].MountPath {
				t.Errorf("the receivers are read from %s, and mounted as %+v of %+v", l.value("receivers"), c.VolumeMounts, template.Spec.Volumes)
			}
			programs[l.argv[0]]++
			if lanes, _ := l.flags.GetStringSlice("lane"); l.argv[0] == "bridge" {
				for _, lane := range lanes {
					served[lane] = true
				}
			}
		})
	}
	if programs["bridge"] == 0 || programs["worker"] == 0 {
		t.Errorf("deployed are %v, want relays and workers", programs)
	}
	for _, lane := range reg.Lanes() {
		if !served[lane] {
			t.Errorf("lane %s has no relay", lane)
		}
	}
}

// checkAdmin holds probes, ports and annotations to the address of the endpoint.
func checkAdmin(t *testing.T, c container, l *launch, annotations map[string]string) {
	t.Helper()
	port := l.adminPort()
	if len(c.Ports) != 1 || strconv.Itoa(c.Ports[0].ContainerPort) != port || annotations["prometheus.io/port"] != port || annotations["prometheus.io/scrape"] != "true" {
		t.Errorf("the endpoint is at port %s, the container's ports are %+v, the annotations %v", port, c.Ports, annotations)
	}
	for _, probe := range []struct {
		probe
		path string
	}{{c.LivenessProbe, "/livez"}, {c.ReadinessProbe, "/readyz"}} {
		// A check has three seconds, and the answer has to come after it.
		if probe.HTTPGet.Path != probe.path || probe.HTTPGet.Port != c.Ports[0].Name || probe.TimeoutSeconds <= 3 {
			t.Errorf("the probe of %s is %+v", probe.path, probe.probe)
		}
	}
}

func TestKubernetesMigrate(t *testing.T) {
	t.Parallel()
	jobs := load[object](t, "kubernetes-migrate.yaml")
	if len(jobs) != 1 || jobs[0].Kind != "Job" || len(jobs[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("want one job: %+v", jobs)
	}
	checkSafety(t, jobs[0].Spec.Template.Spec)
	jobs[0].Spec.Template.Spec.Containers[0].launch(t)
}
