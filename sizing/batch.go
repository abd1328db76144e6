package sizing

import "time"

// Batch is how many rows of one claim fit its lease.
type Batch struct {
	// InsideLease is how many rows start before the lease that the claim stamped, the
	// receiver's and a tenth, is over. What is behind them lapses in its relay.
	InsideLease int64 `json:"batch_inside_lease"`
	// WithoutExtension is how many start while it still is the receiver's lease, so
	// that none needs a write to be given it. The last of them starts at the very end
	// of that time.
	WithoutExtension int64 `json:"batch_without_extension"`
	// Recommended leaves room for two rows that are slower, in both.
	Recommended int64 `json:"batch_recommended"`
}

// Batches returns how many rows of a receiver's lease fit one claim, in whole
// nanoseconds: 1.1 × 60 s is 66 s, and not a little more. perRow is how long the
// relay is busy with one row: the run where it runs receivers itself, else the
// sending. A row that does not fit at all is refused as ErrRunTooLong.
func Batches(lease, perRow time.Duration) (Batch, error) {
	switch {
	case lease <= 0 || lease > longest:
		return Batch{}, refuse(ErrInvalid, "give a lease of more than 0 and at most a hundred years", "lease is %s", lease)
	case perRow <= 0 || perRow > longest:
		return Batch{}, refuse(ErrInvalid, "give a time of more than 0 and at most a hundred years", "time per row is %s", perRow)
	}
	b := batches(lease, perRow)
	if b.InsideLease == 0 {
		return Batch{}, refuse(ErrRunTooLong, "raise the lease above that, or make the row faster",
			"a row of %s does not fit a lease of %s", perRow, lease)
	}
	return b, nil
}

func batches(lease, perRow time.Duration) Batch {
	b := Batch{
		InsideLease:      int64((lease + lease/10) / perRow),
		WithoutExtension: int64(lease/10/perRow) + 1,
	}
	b.Recommended = max(1, min(b.InsideLease, b.WithoutExtension)-2)
	return b
}
