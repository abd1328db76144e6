package window

import (
	"math"
	"testing"
	"time"
)

// feed has a drain see so many rows settle each second.
func feed(d *Drain, from, to int, settled int, waiting bool) {
	for s := from; s <= to; s++ {
		d.Look(time.Duration(s)*time.Second, settled, waiting)
	}
}

func TestDrainFollowsABusyQueue(t *testing.T) {
	t.Parallel()
	var d Drain
	feed(&d, 0, 1, 20, true)
	if rate, known := d.Rate(); rate != 20 || !known {
		t.Fatalf("after a second of 20 rows: %v, %t", rate, known)
	}
	feed(&d, 2, 11, 10, true) // ten seconds of 10
	if rate, _ := d.Rate(); math.Abs(rate-(10+10/math.E)) > 0.01 {
		t.Errorf("after ten seconds of 10 rows: %v, want %v", rate, 10+10/math.E)
	}
	if d.AtLeast() != d.rate {
		t.Errorf("at least %v, and it is %v", d.AtLeast(), d.rate)
	}
}

func TestDrainOfAQueueThatRunsEmptyIsALowerBound(t *testing.T) {
	t.Parallel()
	var d Drain
	feed(&d, 0, 1, 20, false)
	if rate, known := d.Rate(); known || d.AtLeast() != 20 {
		t.Fatalf("%v (%t), at least %v; want unknown, and at least 20", rate, known, d.AtLeast())
	}
	d = Drain{}
	feed(&d, 0, 1, 20, true)
	feed(&d, 2, 20, 9, false)
	if rate, _ := d.Rate(); rate != 20 {
		t.Errorf("an idle time made %v of 20", rate)
	}
	feed(&d, 21, 21, 30, false)
	if rate, _ := d.Rate(); rate != 30 {
		t.Errorf("%v, and 30 were seen", rate)
	}
}

func TestDrainHalvesWhereNothingSettles(t *testing.T) {
	t.Parallel()
	var d Drain
	feed(&d, 0, 1, 20, true)
	feed(&d, 2, 6, 0, true) // a sample of five seconds
	if rate, _ := d.Rate(); rate != 10 {
		t.Errorf("%v after five seconds of nothing, want 10", rate)
	}
	d.Forget()
	if _, known := d.Rate(); known || d.AtLeast() != 0 {
		t.Error("known after all was forgotten")
	}
	feed(&d, 7, 30, 0, true)
	if _, known := d.Rate(); known {
		t.Error("known although nothing settled")
	}
}

// A sample of few rows is worth half of one of many, and a slow lane's is longer.
func TestDrainOfFewRows(t *testing.T) {
	t.Parallel()
	var d Drain
	feed(&d, 0, 5, 1, true)
	if rate, known := d.Rate(); rate != 1 || !known {
		t.Fatalf("%v, %t, want 1", rate, known)
	}
	feed(&d, 6, 12, 0, true) // seven seconds of the eight that eight rows take
	if rate, _ := d.Rate(); rate != 1 {
		t.Errorf("%v before the sample is over, want 1", rate)
	}
	d.Look(13*time.Second, 4, true)
	if rate, _ := d.Rate(); math.Abs(rate-(1-(1-math.Exp(-0.8))/2*0.5)) > 1e-9 {
		t.Errorf("%v after four rows in eight seconds", rate)
	}
	d = Drain{}
	d.Look(0, 0, true)
	d.Look(400*time.Millisecond, 100, true) // too short for a rate
	if _, known := d.Rate(); known {
		t.Error("known after 0.4 s")
	}
}
