package ops

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// histogram is what was measured, by the upper bounds of buckets; the last is
// infinity. Each count is of all that is no more than the bound. The zero histogram
// measured nothing.
type histogram struct {
	bounds []float64
	counts []float64
	broken bool // it makes no sense, or others of other bounds were added
}

func histogramOf(m *dto.Metric) histogram {
	var h histogram
	buckets := m.GetHistogram().GetBucket()
	for i, bucket := range buckets {
		bound, last := bucket.GetUpperBound(), i == len(buckets)-1
		if math.IsInf(bound, 1) != last || math.IsNaN(bound) || i > 0 && !(bound > h.bounds[i-1]) || i == 0 && bound < 0 {
			return histogram{broken: true}
		}
		h.bounds, h.counts = append(h.bounds, bound), append(h.counts, float64(bucket.GetCumulativeCount()))
	}
	return h
}

// plus adds what another process measured.
func (h histogram) plus(other histogram) histogram {
	switch {
	case len(h.bounds) == 0 && !h.broken:
		return other
	case h.broken || !slices.Equal(h.bounds, other.bounds):
		return histogram{broken: true}
	}
	sums := slices.Clone(h.counts)
	for i, count := range other.counts {
		sums[i] += count
	}
	return histogram{bounds: h.bounds, counts: sums}
}

// quantile returns what a share of all is no more than, as Prometheus does: as if all
// were evenly spread within their buckets. Beyond the last bound but infinity it is
// that bound.
func (h histogram) quantile(share float64) (value float64, ok bool) {
	if h.broken || len(h.bounds) < 2 || h.counts[len(h.counts)-1] == 0 {
		return 0, false
	}
	rank := share * h.counts[len(h.counts)-1]
	below, from := 0.0, 0.0
	for i, bound := range h.bounds[:len(h.bounds)-1] {
		if count := h.counts[i]; count >= rank {
			return from + (bound-from)*(rank-below)/(count-below), true
		} else if count > below {
			below = count
		}
		from = bound
	}
	return from, true
}
