package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/waybill-go/waybill/sizing"
)

// figure is a flag that holds a figure: one that was given is told from one that was
// not, also where it is 0.
type figure[T int | float64 | time.Duration] struct {
	to    *sizing.Figure[T]
	parse func(text string) (T, error)
	kind  string
	text  string
}

func (f *figure[T]) String() string { return f.text }
func (f *figure[T]) Type() string   { return f.kind }

func (f *figure[T]) Set(text string) error {
	value, err := f.parse(text)
	if err != nil {
		return err
	}
	*f.to, f.text = sizing.Typed(value), text
	return nil
}

func countFlag(to *sizing.Figure[int], least int) *figure[int] {
	return &figure[int]{to: to, kind: "number", parse: func(text string) (int, error) {
		value, err := strconv.Atoi(text)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, errors.New("it is too large")
		case err != nil:
			return 0, errors.New("want a whole number, as in 28000")
		case value < least:
			return 0, fmt.Errorf("must be %d or more", least)
		}
		return value, nil
	}}
}

// numberFlag is a flag for a number that ok accepts; otherwise says what it must be.
func numberFlag(to *sizing.Figure[float64], kind, otherwise string, ok func(float64) bool) *figure[float64] {
	return &figure[float64]{to: to, kind: kind, parse: func(text string) (float64, error) {
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
			return 0, errors.New("want a number, as in 19.5")
		case !ok(value):
			return 0, errors.New(otherwise)
		}
		return value, nil
	}}
}

func notNegative(value float64) bool { return value >= 0 }

const mustNotBeNegative = "must not be negative"

func durationFlag(to *sizing.Figure[time.Duration], zero bool) *figure[time.Duration] {
	return &figure[time.Duration]{to: to, kind: "duration", parse: func(text string) (time.Duration, error) {
		return parseDuration(text, zero)
	}}
}

// parseDuration reads a duration with a unit: 900 may be seconds, and may be meant as
// minutes. zero says whether it may be none.
func parseDuration(text string, zero bool) (time.Duration, error) {
	if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
		return 0, fmt.Errorf("%s has no unit; write %ss or %s", text, text, inMinutes(text, value))
	}
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, errors.New("want a number and a unit, as in 900s or 15m")
	case value < 0:
		return 0, errors.New(mustNotBeNegative)
	case value == 0 && !zero:
		return 0, errors.New("must be longer than nothing")
	}
	return value, nil
}

// inMinutes writes so many seconds in minutes, or as so many minutes.
func inMinutes(text string, seconds float64) string {
	if minutes := seconds / 60; minutes >= 1 && minutes == math.Trunc(minutes) {
		return strconv.FormatFloat(minutes, 'f', -1, 64) + "m"
	}
	return text + "m"
}

// staleCost is what a stale copy costs a worker: a time, or the full slot that a run
// has.
type staleCost struct {
	cost  sizing.Figure[time.Duration]
	share sizing.Figure[float64]
	text  string
}

func (s *staleCost) String() string { return s.text }
func (*staleCost) Type() string     { return "duration|full" }

func (s *staleCost) Set(text string) error {
	if text == "full" {
		*s = staleCost{share: sizing.Typed(1.0), text: text}
		return nil
	}
	value, err := parseDuration(text, true)
	if err != nil {
		return fmt.Errorf("%w; or full, for as much as a run", err)
	}
	*s = staleCost{cost: sizing.Typed(value), text: text}
	return nil
}
