package sizing

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Source says where a figure comes from: an answer is worth what its figures are.
type Source string

const (
	FromTyping  Source = "typed"   // somebody said so
	FromLive    Source = "live"    // measured on the running system
	FromDefault Source = "default" // nobody said anything
)

// Figure is a number and where it comes from. The zero Figure is not given, and a
// default stands in for it; Typed(0) is a zero that was meant.
type Figure[T int | float64 | time.Duration] struct {
	Value  T
	Source Source
	Note   string // what it was read from, for people
}

// Typed returns a figure that somebody gave.
func Typed[T int | float64 | time.Duration](value T) Figure[T] {
	return Figure[T]{Value: value, Source: FromTyping}
}

// Live returns a figure that was measured; note says on what.
func Live[T int | float64 | time.Duration](value T, note string) Figure[T] {
	return Figure[T]{Value: value, Source: FromLive, Note: note}
}

// Given reports whether anybody gave the figure.
func (f Figure[T]) Given() bool { return f.Source != "" }

// Input is a figure that an answer rests on. Durations are in seconds.
type Input struct {
	Name   string  `json:"-"`
	Value  float64 `json:"value"`
	Source Source  `json:"source"`
	Note   string  `json:"note,omitempty"`
}

// Inputs are all figures that an answer rests on, in a fixed order. In JSON they are
// one object, by name.
type Inputs []Input

// MarshalJSON writes an object whose keys are the names, in order.
func (in Inputs) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, input := range in {
		if i > 0 {
			out.WriteByte(',')
		}
		value, err := json.Marshal(input)
		if err != nil {
			return nil, err
		}
		out.WriteString(strconv.Quote(input.Name) + ":")
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Get returns the input of that name.
func (in Inputs) Get(name string) (Input, bool) {
	for _, input := range in {
		if input.Name == name {
			return input, true
		}
	}
	return Input{}, false
}

// kind is what a figure may be.
type kind int

const (
	anything     kind = iota // zero or more
	positive                 // more than zero
	fromOne                  // one or more
	share                    // above 0, below 1
	wholeOrShare             // above 0, up to 1
)

var kinds = [...]string{"0 or more", "more than 0", "1 or more", "between 0 and 1", "more than 0 and at most 1"}

// has reports whether a value is of the kind. It is written so that NaN never is.
func (k kind) has(value float64) bool {
	ok := [...]bool{value >= 0, value > 0, value >= 1, value > 0 && value < 1, value > 0 && value <= 1}[k]
	return ok && !math.IsInf(value, 1)
}

// reader takes figures, checks them and notes each as an input. The first that
// cannot be is its error.
type reader struct {
	inputs Inputs
	err    error
}

// read takes a figure or its default. A method cannot have a type parameter.
func read[T int | float64 | time.Duration](r *reader, name string, figure Figure[T], kind kind, initial T, note string) T {
	if !figure.Given() {
		figure = Figure[T]{Value: initial, Source: FromDefault, Note: note}
	}
	input := Input{Name: name, Value: plain(figure.Value), Source: figure.Source, Note: figure.Note}
	r.inputs = append(r.inputs, input)
	if r.err == nil && !kind.has(input.Value) {
		r.err = refuse(ErrInvalid, "give a figure that is "+kinds[kind], "%s is %s", name, decimal(input.Value))
	}
	if d, ok := any(figure.Value).(time.Duration); r.err == nil && ok && d > longest {
		r.err = refuse(ErrInvalid, "give a figure that is at most a hundred years", "%s is %s", name, decimal(input.Value))
	}
	return figure.Value
}

// plain returns a figure as a number, a duration in seconds.
func plain[T int | float64 | time.Duration](value T) float64 {
	if d, ok := any(value).(time.Duration); ok {
		return d.Seconds()
	}
	return float64(value)
}
