package execreceiver

import (
	"strings"
	"unicode"
)

const (
	keptOutput  = 8 << 10 // bytes of each output that are kept while a command writes
	shownOutput = 1500    // of those, in an error or a log line: last_error has room for it and more
)

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool // more was written
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > keptOutput {
		p, t.cut = p[n-keptOutput:], true
	}
	if excess := len(t.kept) + len(p) - keptOutput; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[min(excess, len(t.kept)):]...)
		t.cut = true
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// text is the end of the output for people: valid UTF-8, without secrets, white space
// around it or control characters, its lines as they were.
func (t *tail) text(hide secrets) string {
	text, cut := hide.replacer.Replace(string(t.kept)), t.cut
	if cut { // in the middle of a secret, perhaps
		text = text[min(hide.longest, len(text)):]
	}
	text = strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD")))
	if len(text) > shownOutput {
		text, cut = text[len(text)-shownOutput:], true
	}
	if cut {
		text = "…" + strings.TrimLeft(strings.ToValidUTF8(text, ""), "\uFFFD \n\t")
	}
	return text
}

// printable drops control characters, but not those that part lines and words.
func printable(c rune) rune {
	if unicode.IsControl(c) && c != '\n' && c != '\t' {
		return -1
	}
	return c
}
