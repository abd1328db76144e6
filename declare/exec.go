package declare

import (
	"context"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/execreceiver"
)

var execFields = []string{"command", "dir", "env", "defer_for", "permanent_exit"}

// execRunner reads the section exec. The program is looked for where it runs, and
// nowhere else: a relay's machine need not have it.
func execRunner(s *section, receiver waybill.Receiver) func(context.Context, *waybill.Delivery) error {
	before := len(s.problems)
	var missing variables
	config := execreceiver.Config{Timeout: receiver.Timeout}
	config.Command = s.command()
	config.Dir = s.text("dir")
	if node := s.take("env"); node != nil {
		env := s.section(node, s.path+"env.")
		config.Env = make(map[string]string, len(env.order))
		for _, name := range env.order {
			value, _ := env.scalar(name)
			config.Env[name] = env.expand(name, value, &missing)
		}
	}
	config.DeferFor = s.duration("defer_for")
	for _, code := range s.list("permanent_exit") {
		config.PermanentExit = append(config.PermanentExit, s.exitCode("permanent_exit", code))
	}
	s.done(execFields...)
	here := s.runsHere(receiver.Site)
	if here {
		s.needs(missing)
	}
	if len(s.problems) > before {
		return nil
	}
	if err := config.Check(); err != nil {
		s.failExec(err)
		return nil
	}
	if len(missing) > 0 {
		return absent(missing[0].text)
	}
	run, err := execreceiver.New(config)
	switch {
	case err == nil:
		return run
	case here:
		s.failExec(err)
		return nil
	}
	return absent(err.Error())
}

// failExec reports an error of execreceiver at the field that it begins with.
func (s *section) failExec(err error) {
	text := err.Error()
	for prefix, field := range map[string]string{
		"command": "command", "env": "env", "dir": "dir", "permanent exit": "permanent_exit", "defer-for": "defer_for",
	} {
		if strings.HasPrefix(text, prefix) {
			s.fail(field, "%s", strings.TrimPrefix(text, field+": "))
			return
		}
	}
	s.fail("command", "%s", text)
}

// command reads the program and its arguments. One text is not split: whoever wrote it
// expects a shell, which there is none.
func (s *section) command() []string {
	const name = "command"
	f, ok := s.fields[name]
	switch {
	case !ok:
		s.fail(name, "is missing; name the program and its arguments, as a list")
	case f.value.Kind == yaml.ScalarNode && f.value.ShortTag() != "!!null":
		s.take(name)
		s.fail(name, "want a list, as in [program, argument]; there is no shell that splits a text, unless it is the program: [/bin/sh, -c, %s]", short(f.value.Value))
	default:
		list := s.list(name)
		if list != nil && len(list) == 0 {
			s.fail(name, "is empty; name the program and its arguments")
		}
		return list
	}
	return nil
}

// exitCode reads one of a list of exit codes.
func (s *section) exitCode(name, text string) int {
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		s.fail(name, "%s is no exit code of a failure; want 1 to 255", short(text))
	}
	return code
}
