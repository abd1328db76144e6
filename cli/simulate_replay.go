package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/ops"
)

// fromStore is where arrivals are replayed from that are no file's.
const fromStore = "store"

const (
	defaultReplayed = 100_000
	mostReplayed    = 2_000_000
)

// replay fills in the arrivals that are to be replayed.
func (q *simulateQuestion) replay(cmd *cobra.Command, a *app) (err error) {
	given := cmd.Flags().Changed
	switch {
	case given("arrivals-from") && q.arrivalsFrom == "":
		return usagef("--arrivals-from is empty: name a file, or store")
	case given("arrivals-from") && (given("backlog") || given("arrivals")):
		return usagef("--arrivals-from says when every row arrives: leave out --backlog and --arrivals")
	case given("arrivals-from") && q.scenario == "steady":
		return usagef("--arrivals-from says when every row arrives: the scenario steady would do nothing")
	case q.arrivalsFrom != fromStore && given("lane"):
		return usagef("--lane is for --arrivals-from store")
	case q.arrivalsFrom != fromStore && given("newest"):
		return usagef("--newest is for --arrivals-from store")
	case q.newest.Value > mostReplayed:
		return usagef("--newest %d: must be at most %d", q.newest.Value, mostReplayed)
	case q.arrivalsFrom == "":
		return nil
	case q.arrivalsFrom == fromStore:
		q.simulation.Replay, err = a.dueTimes(cmd, q.lane, q.newest.Value)
	default:
		q.simulation.Replay, err = readArrivals(q.arrivalsFrom, cmd.InOrStdin())
	}
	return err
}

// dueTimes are the arrivals of a lane's newest rows.
func (a *app) dueTimes(cmd *cobra.Command, lane string, newest int) ([]time.Duration, error) {
	if err := a.declareFor(false); err != nil {
		return nil, err
	}
	if err := a.registry.CheckLane(lane); err != nil {
		return nil, usagef("%v", err)
	}
	store, done, err := a.historyStore(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	if newest == 0 {
		newest = defaultReplayed
	}
	times, err := ops.DueTimes(cmd.Context(), store, a.registry, lane, newest)
	if err != nil {
		return nil, err
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("no rows of lane %s are in the store: there is nothing to replay", lane)
	}
	slices.SortFunc(times, time.Time.Compare)
	arrivals := make([]time.Duration, len(times))
	for i, at := range times {
		arrivals[i] = at.Sub(times[0])
	}
	return arrivals, nil
}

// readArrivals reads a file, or standard input for -, of one moment on each line: RFC
// 3339 times or numbers of seconds, none before the line above it.
func readArrivals(path string, stdin io.Reader) ([]time.Duration, error) {
	name := path
	if path == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--arrivals-from: %w", err)
		}
		defer file.Close()
		stdin = file
	}
	arrivals, err := parseArrivals(stdin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return arrivals, nil
}

func parseArrivals(r io.Reader) ([]time.Duration, error) {
	var (
		arrivals []time.Duration
		first    moment
		scanner  = bufio.NewScanner(r)
	)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		at, err := parseMoment(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case line == 1:
			first = at
		case at.isTime != first.isTime:
			return nil, fmt.Errorf("line %d: %s: times and numbers of seconds do not go together", line, text)
		case len(arrivals) == mostReplayed:
			return nil, fmt.Errorf("it has more than %d lines: replay so many at most", mostReplayed)
		}
		since, err := at.since(first)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if n := len(arrivals); n > 0 && since < arrivals[n-1] {
			return nil, fmt.Errorf("line %d: %s is before the line above it: sort the lines", line, text)
		}
		arrivals = append(arrivals, since)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: %w", len(arrivals)+1, errNoMoment)
	case err != nil:
		return nil, err
	case len(arrivals) == 0:
		return nil, errors.New("it is empty: there is nothing to replay")
	}
	return arrivals, nil
}

// moment is a line: a time, or a number of seconds.
type moment struct {
	isTime  bool
	time    time.Time
	seconds float64
}

var errNoMoment = errors.New("want a time, as in 2026-01-31T12:00:00Z, or a number of seconds, as in 3.5")

func parseMoment(text string) (moment, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0) {
		return moment{seconds: seconds}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return moment{}, fmt.Errorf("%.40q: %w", text, errNoMoment)
	}
	return moment{isTime: true, time: at}, nil
}

// since is how long after the first line it is. A line that is before that is before the
// one above it, too.
func (m moment) since(first moment) (time.Duration, error) {
	const most = 100 * 365 * 24 * time.Hour
	since := m.seconds - first.seconds
	if m.isTime {
		since = m.time.Sub(first.time).Seconds()
	}
	if since > most.Seconds() {
		return 0, errors.New("it is more than a hundred years after the first line")
	}
	return time.Duration(math.Round(max(since, -1) * 1e9)), nil
}
