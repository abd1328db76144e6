package cli

import "errors"

// single is a flag that is given once. Where the last of several would count without a
// word, the receivers of the others would be nobody's, and be orphaned.
type single struct {
	value *string
	given bool
}

func (s *single) String() string {
	if s.value == nil { // pflag asks a zero value for its default
		return ""
	}
	return *s.value
}

func (s *single) Set(value string) error {
	if s.given {
		return errors.New("it is given twice; put all receivers into one file")
	}
	*s.value, s.given = value, true
	return nil
}

func (*single) Type() string { return "string" }
