package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/sizing"
)

// writeText writes the answer, then what it means, what it rests on, and what there is
// to watch out for. A check is answered by its first lines.
func (r *sizeReport) writeText(w io.Writer) error {
	var text strings.Builder
	r.writeVerdict(&text)
	if !r.question.check {
		if r.question.table {
			text.WriteByte('\n')
			writeTable(&text, r.Table)
		} else {
			r.writeMeaning(&text)
		}
		if r.Live != nil {
			r.Live.write(&text)
		}
		text.WriteByte('\n')
		writeInputs(&text, r.noted(), r.hidden)
		for _, warning := range r.Warnings {
			fmt.Fprintf(&text, "warning: %s\n", warning)
		}
	}
	if r.question.plot != "" {
		fmt.Fprintf(&text, "picture: %s\n", r.question.plot)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *sizeReport) writeVerdict(text *strings.Builder) {
	lease := inSeconds(r.judgedLease())
	switch {
	case r.Verdict == "":
		fmt.Fprintf(text, "Declare a lease of %s.\n", lease)
	case !r.Converges:
		fmt.Fprintf(text, "A lease of %s lapses, and the queue never gets done: from %s rows on every copy is stale when a worker reaches it.\n", lease, count(r.CollapseBacklog))
	case r.Verdict == lapses && r.StaleCopies == 0 && r.measured():
		fmt.Fprintf(text, "A lease of %s may lapse: it holds at the measured rate, with nothing to spare.\n", lease)
	case r.Verdict == lapses && r.StaleCopies == 0:
		fmt.Fprintf(text, "A lease of %s may lapse: it holds at the full rate, and that was not measured.\n", lease)
	case r.Verdict == lapses:
		fmt.Fprintf(text, "A lease of %s lapses: about %s stale copies.\n", lease, count(r.StaleCopies))
	case r.Verdict == tight:
		enough := time.Duration(math.Ceil(r.Wait.Duration().Seconds()/tightShare)) * time.Second
		fmt.Fprintf(text, "A lease of %s is tight: %.0f%% of it may be spent waiting. %s would leave a fifth to spare.\n",
			lease, 100*r.Wait.Duration().Seconds()/r.judgedLease().Seconds(), inSeconds(enough))
	default:
		fmt.Fprintf(text, "A lease of %s is fine.\n", lease)
	}
	if r.Verdict == lapses {
		fmt.Fprintf(text, "Declare %s", inSeconds(r.Lease.Duration()))
		if r.WorkersNeeded != nil {
			fmt.Fprintf(text, ", or run %s workers", count(*r.WorkersNeeded))
		}
		text.WriteString(".\n")
	}
	if r.input("ahead_rows") == 0 {
		fmt.Fprintf(text, "A row waits up to %s for a worker, in %s.\n", upTo(r.Wait), r.often("cases"))
		return
	}
	fmt.Fprintf(text, "The last of %s rows waits up to %s for a worker, in %s.\nThe rule of thumb, backlog ÷ rate, is %s.\n",
		plot.Number(r.input("ahead_rows")), upTo(r.Wait), r.often("such bursts"), upTo(r.MinLease))
}

// often words the confidence.
func (r *sizeReport) often(of string) string {
	percent := strconv.FormatFloat(math.Round(r.Confidence*1e6)/1e4, 'f', -1, 64)
	if whole, decimals, found := strings.Cut(percent, "."); found {
		return whole + decimals + " of 1" + strings.Repeat("0", 2+len(decimals)) + " " + of
	}
	return percent + " of 100 " + of
}

func (r *sizeReport) writeMeaning(text *strings.Builder) {
	fmt.Fprintf(text, "\nUnder a lease of %s\n", span(r.judgedLease()))
	fits := count(r.MaxBacklog) + " rows fit"
	if r.WorkersNeeded != nil {
		fits += "; the backlog needs " + count(*r.WorkersNeeded) + " workers"
	}
	fmt.Fprintf(text, "  %s\n", fits)
	countedOn := "nine tenths of the rate"
	if r.measured() {
		countedOn = "the rate that can be counted on"
	}
	stale := fmt.Sprintf("about %s stale copies, %s at %s", count(r.StaleCopies), count(r.StaleAtLowDrain), countedOn)
	switch {
	case !r.Converges:
		stale = "stale copies without end"
	case r.StaleCopies == 0 && r.StaleAtLowDrain == 0:
		stale = "no stale copies"
	}
	if r.CollapseBacklog > 0 {
		stale += fmt.Sprintf("; never done from %s rows on", count(r.CollapseBacklog))
	}
	fmt.Fprintf(text, "  %s\n", stale)
	fmt.Fprintf(text, "  %s writes a row; a row waits up to %s for a dead worker, %s for a lost broker\n",
		plot.Number(r.Cost.WritesPerRow), span(r.Cost.DeadWorkerWait.Duration()), span(r.Cost.LostBrokerWait.Duration()))
}

// hidden says of a figure that it is nothing anybody gave or could give here.
func (r *sizeReport) hidden(name string) bool {
	known := r.question.load.Workers.Given() || r.question.load.Service.Given()
	switch name {
	case "workers", "service_seconds":
		return !known
	case "dispersion", "per_row_seconds", "relay_rate_per_second", "samples":
		return true
	}
	return false
}

// noted are the figures, with what a stale copy costs as a share of a run: where the
// workers are not known, it is of one that does it all.
func (r *sizeReport) noted() sizing.Inputs {
	inputs := slices.Clone(r.Inputs)
	for i := range inputs {
		if inputs[i].Name == "stale_cost_seconds" {
			inputs[i].Note = percent(r.staleShare()) + " of a run"
		}
	}
	return inputs
}

// percent writes a share, a small one to two digits.
func percent(share float64) string {
	if share < 1 {
		return fmt.Sprintf("%.2g%%", 100*share)
	}
	return plot.Number(math.Round(100*share)) + "%"
}

// words name the figures that an answer rests on, and their units.
var words = map[string][2]string{
	"ahead_rows": {"backlog", " rows"}, "rows": {"backlog", " rows"}, "drain_per_second": {"rate", "/s"}, "workers": {"workers", ""},
	"service_seconds": {"run", "s"}, "cv": {"cv", ""}, "arrivals_per_second": {"arrivals", "/s"}, "confidence": {"confidence", ""},
	"poll_seconds": {"poll", "s"}, "batch_rows": {"batch", " rows"}, "send_seconds": {"send", "s"},
	"stale_cost_seconds": {"stale copy", "s"}, "stale_share": {"stale copy", " of a run"},
	"standard_lease_seconds": {"standard lease", "s"}, "lease_seconds": {"lease", "s"}, "relays": {"relays", ""},
	"target_seconds": {"window horizon", "s"}, "fault_at_seconds": {"fault at", "s"}, "fault_for_seconds": {"fault for", "s"},
	"fault_share": {"fault share", ""}, "slowdown": {"slowdown", "×"},
}

// ourWords are the flags' names for what the calculator calls otherwise.
var ourWords = strings.NewReplacer("service", "run", "drain", "rate")

// lineWidth is where the list of the figures breaks.
const lineWidth = 110

// writeInputs writes the figures by their source: what was typed, then defaults.
func writeInputs(text *strings.Builder, inputs sizing.Inputs, hidden func(name string) bool) {
	for _, source := range []sizing.Source{sizing.FromTyping, sizing.FromLive, sizing.FromDefault} {
		var parts []string
		for _, input := range inputs {
			if input.Source == source && !hidden(input.Name) {
				parts = append(parts, worded(input))
			}
		}
		if len(parts) == 0 {
			continue
		}
		line := fmt.Sprintf("%-8s ", source)
		for i, part := range parts {
			if i > 0 && len(line)+len(part) > lineWidth {
				fmt.Fprintln(text, strings.TrimRight(line, " "))
				line = strings.Repeat(" ", 9)
			}
			if line += part; i < len(parts)-1 {
				line += "; "
			}
		}
		fmt.Fprintln(text, line)
	}
}

// worded writes a figure with its unit and, if it was worked out, how.
func worded(input sizing.Input) string {
	word, ok := words[input.Name]
	if !ok {
		word[0] = strings.ReplaceAll(input.Name, "_", " ")
	}
	value := strconv.FormatFloat(input.Value, 'g', -1, 64)
	switch {
	case word[1] == "s":
		value = span(time.Duration(math.Round(input.Value * 1e9)))
	case input.Name == "stale_share" && input.Value == 1:
		value = "a full slot"
	case input.Value == math.Trunc(input.Value) && math.Abs(input.Value) < 1e15:
		value = plot.Number(input.Value) + word[1]
	default:
		value += word[1]
	}
	if input.Note != "" {
		value += " (" + ourWords.Replace(input.Note) + ")"
	}
	return word[0] + " " + value
}

func count(n int) string { return plot.Number(float64(n)) }

// span writes a duration as people do: 15m and not 15m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// upTo writes a time in seconds, rounded up: to a tenth where that is much of it.
func upTo(s sizing.Seconds) string {
	value := s.Duration().Seconds()
	if value < 60 {
		return seconds(math.Ceil(value*10) / 10)
	}
	return seconds(math.Ceil(value))
}

func seconds(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) + "s" }

// inSeconds writes a duration in seconds, and as people do where that is another form.
func inSeconds(d time.Duration) string {
	text := seconds(d.Seconds())
	if other := span(d); other != text {
		text += " (" + other + ")"
	}
	return text
}
