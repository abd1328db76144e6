// Package declare reads receivers, and what lanes are apart from them, from a YAML
// file: all of them for the standalone bridge and worker, which bring no code of their
// own, and some beside those written in Go for a team's own program.
//
//	receivers:
//	  - key: crm.sync              # required; what the rows address
//	    event: order.placed        # required; '*' is every event
//	    lane: crm                  # defaults to default
//	    site: task                 # task (a worker) or relay; defaults to task
//	    lease: 60s                 # defaults to 5m
//	    timeout: 20s               # below the lease, or with heartbeat beyond it
//	    heartbeat: false           # extends the lease while the receiver runs
//	    max_attempts: 8            # defaults to 5
//	    backoff: {base: 2s, cap: 10m}   # these are 2s and 1h by default
//	    give_up_after: 24h         # how long 429, 503 and exit 75 may defer it
//	    http:                      # what runs it: exactly one of http and exec
//	      url: https://crm.example.com/hooks/waybill
//	      method: POST             # or PUT, PATCH; defaults to POST
//	      headers:
//	        Authorization: Bearer ${CRM_TOKEN}
//	  - key: stock.export
//	    event: stock.counted
//	    exec:
//	      command: [export-stock, --format, csv]   # a program and its arguments; no shell
//	      dir: /var/lib/stock      # defaults to the process's
//	      env:                     # beside the delivery's facts and PATH, HOME, …
//	        FTP_PASSWORD: ${FTP_PASSWORD}
//	      defer_for: 5m            # what exit 75 asks to wait; defaults to 1m
//	      permanent_exit: [65]     # exit codes that no later attempt can mend
//	lanes:                         # may be left out, and so may any lane
//	  crm:
//	    handoff_lease: 25m         # defaults to each receiver's own lease
//
// Each field means what waybill.Options, waybill.LaneOptions, httpreceiver.Config and
// execreceiver.Config say of it. A lane that stands under lanes exists without
// receivers, too. A duration has a unit. In http.url and in the values of http.headers
// and exec.env, ${NAME} is the environment's variable of that name, so that no
// secret need stand in the file; $${ is a plain ${. A command's arguments are as they
// stand: whoever lists processes can read them, so secrets go into env.
//
// A file declares all that is in it or nothing: the error names everything that is
// wrong with it, one line each, with file, line and field.
//
// # Which function
//
// An application that only fires calls Load: it needs the receivers of the file, so that
// a row is written for each, and none of their secrets. What runs receivers calls
// LoadFor with their sites, and is told of secrets and commands that are missing.
//
// # Reading a file again
//
// A registry takes a file once: keys are unique. To read it again, read it into a
// registry of its own and put that in place of the declarations in use. This is what
// relay and worker do at SIGHUP:
//
//	base := reg.Clone() // before the file was read: what is declared in Go
//	...
//	next := base.Clone()
//	if err := declare.LoadFor(next, path, waybill.SiteTask); err != nil {
//		return err // reg is as it was
//	}
//	return reg.Replace(next)
package declare

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/waybill-go/waybill"
)

// maxFile bounds a declarations file: one that is longer is another file.
const maxFile = 4 << 20

// Load declares the receivers and lanes of a file in a process that runs none of them:
// an application that fires needs them all, because a row is written for each
// receiver that it knows and for no other. It needs neither their secrets nor their programs: a
// variable that is not set is no mistake, nor is a command that is not there. One that runs
// receivers as well names their sites, with LoadFor.
func Load(reg *waybill.Registry, path string) error { return LoadFor(reg, path) }

// LoadFor declares what is in a file, for a process that runs the receivers of the given
// sites: waybill.SiteTask in a worker, waybill.SiteRelay in a relay. Those have to be
// complete: a variable that is not set, or a command that is not there, is a
// mistake. Of the others it needs neither; if such a one is run all the same, its
// attempts fail with an error that says what is missing.
func LoadFor(reg *waybill.Registry, path string, sites ...waybill.Site) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("receivers: %w", err)
	}
	defer file.Close()
	return Read(reg, path, file, sites...)
}

// Read declares what is in a file that is open already, as LoadFor does; name stands
// for it in errors.
func Read(reg *waybill.Registry, name string, in io.Reader, sites ...waybill.Site) error {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return fmt.Errorf("receivers: %w", err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("receivers: %s is longer than %d MiB; is it the right file?", name, maxFile>>20)
	}
	r := &reader{file: name, sites: sites}
	receivers, lanes := r.read(data, reg)
	if len(r.problems) > 0 {
		return r.err()
	}
	for _, lane := range lanes {
		reg.AddLane(lane.name, lane.options)
	}
	for _, receiver := range receivers {
		reg.Add(receiver)
	}
	return reg.Err()
}

// read returns the file's receivers and lanes, and leaves what is wrong in r.problems.
func (r *reader) read(data []byte, reg *waybill.Registry) ([]waybill.Receiver, []lane) {
	root := r.parse(data)
	if len(r.problems) > 0 {
		return nil, nil
	}
	const none = "the file declares no receivers; it begins with receivers: and a list of them"
	if root == nil {
		r.fail(1, none)
		return nil, nil
	}
	top := r.section(root, "")
	list, lanes := top.take("receivers"), r.lanes(top, reg)
	top.done("receivers", "lanes")
	switch {
	case top.node == nil || list == nil && r.failedAny():
		return nil, nil
	case list == nil || list.Kind == yaml.SequenceNode && len(list.Content) == 0:
		r.fail(root.Line, none)
		return nil, nil
	case list.Kind != yaml.SequenceNode:
		top.fail("receivers", "want a list; begin each receiver with a dash")
		return nil, nil
	}
	var receivers []waybill.Receiver
	lines := map[string]int{}
	for i, item := range list.Content {
		receiver, line := r.receiver(resolve(item), i+1)
		if receiver.Key == "" {
			continue
		}
		if first, ok := lines[receiver.Key]; ok {
			r.fail(line, "receiver %q: key: line %d has that key already; every receiver needs its own", receiver.Key, first)
			continue
		}
		if _, ok := reg.Receiver(receiver.Key); ok {
			r.fail(line, "receiver %q: key: the program declares that key already", receiver.Key)
		}
		lines[receiver.Key] = line
		receivers = append(receivers, receiver)
	}
	return receivers, lanes
}

// parse returns the root of the file's only document, nil for an empty file.
func (r *reader) parse(data []byte) *yaml.Node {
	if !utf8.Valid(data) {
		good := 0
		for good < len(data) {
			c, size := utf8.DecodeRune(data[good:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			good += size
		}
		r.fail(1+bytes.Count(data[:good], []byte("\n")), "the file is not UTF-8 text")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.failParse(err)
		return nil
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.failParse(err)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		r.fail(second.Line, "a second document begins here; put all receivers into one")
	} else if !errors.Is(err, io.EOF) {
		r.failParse(err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil
	}
	root := resolve(document.Content[0])
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil
	}
	return root
}

func (r *reader) failParse(err error) {
	var bad *yaml.LoadError
	if !errors.As(err, &bad) {
		r.fail(1, "not YAML: %v", err)
		return
	}
	text := bad.Message
	if bad.ContextMsg != "" {
		text += " (" + bad.ContextMsg + ")"
	}
	if bad.ContextMsg == "while scanning an alias" {
		text += "; a value that begins with * stands in quotes: event: '*'"
	}
	r.fail(max(bad.Mark.Line, 1), "not YAML: %s", text)
}

// resolve follows an alias to what it stands for.
func resolve(node *yaml.Node) *yaml.Node {
	for range 10 { // an alias of an alias cannot be written; the bound costs nothing
		if node.Kind != yaml.AliasNode || node.Alias == nil {
			break
		}
		node = node.Alias
	}
	return node
}

// runsHere reports whether this process runs receivers of the site.
func (r *reader) runsHere(site waybill.Site) bool {
	return slices.Contains(r.sites, cmp.Or(site, waybill.SiteTask))
}
