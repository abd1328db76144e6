package worker

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// batches runs a batcher whose flush doubles numbers and keeps their batches.
func batches(t *testing.T, last func(int) bool) (b *batcher[int, int], sizes func() []int) {
	var mu sync.Mutex
	var flushed []int
	b = newBatcher(func(requests []int) ([]int, error) {
		mu.Lock()
		defer mu.Unlock()
		flushed = append(flushed, len(requests))
		doubled := make([]int, len(requests))
		for i, n := range requests {
			doubled[i] = 2 * n
		}
		return doubled, nil
	}, last)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run()
	}()
	t.Cleanup(func() {
		close(b.queue)
		<-done
	})
	return b, func() []int {
		mu.Lock()
		defer mu.Unlock()
		return flushed
	}
}

func never(int) bool  { return false }
func always(int) bool { return true }

// doAll hands n requests in at once and waits for the answers.
func doAll(t *testing.T, b *batcher[int, int], n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if got, err := b.do(i); err != nil || got != 2*i {
				t.Errorf("request %d was answered %d, %v", i, got, err)
			}
		})
	}
	all.Wait()
}

func TestLoneRequestWaitsForCompanyAndNotForLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		last func(int) bool
		want time.Duration
	}{
		{"others may come", never, 2 * time.Millisecond},
		{"nobody else can come", always, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := batches(t, c.last)
				begun := time.Now()
				doAll(t, b, 1)
				if took := time.Since(begun); took != c.want {
					t.Errorf("a lone request took %s, want %s", took, c.want)
				}
			})
		})
	}
}

// The wait is the first one's: others that join do not draw it out.
func TestWaitBeginsWithTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, sizes := batches(t, never)
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
				b.do(i)
				if i == 0 && time.Since(begun) != 2*time.Millisecond {
					t.Errorf("the first was answered after %s, want 2ms", time.Since(begun))
				}
			})
		}
		all.Wait()
		if got := sizes(); len(got) != 2 || got[0] != 7 || got[1] != 3 {
			t.Errorf("batches of %v, want the 7 of the first 2ms and the other 3", got)
		}
	})
}

func TestHundredMakeABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, sizes := batches(t, never)
		begun := time.Now()
		doAll(t, b, 300)
		if got := sizes(); len(got) != 3 || got[0] != 100 || got[1] != 100 || got[2] != 100 {
			t.Errorf("batches of %v, want three of 100", got)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("full batches took %s, want no wait", took)
		}
	})
}

// What is there already joins, also where nobody else can come.
func TestWaitingRequestsAreOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var sizes []int
		b := newBatcher(func(requests []int) ([]int, error) {
			sizes = append(sizes, len(requests))
			<-hold
			return requests, nil
		}, always)
		done := make(chan struct{})
		go func() { defer close(done); b.run() }()
		var all sync.WaitGroup
		all.Go(func() { b.do(0) })
		synctest.Wait() // the first is being flushed
		for range 40 {
			all.Go(func() { b.do(0) })
		}
		synctest.Wait()
		close(hold)
		all.Wait()
		close(b.queue)
		<-done
		if len(sizes) != 2 || sizes[1] != 40 {
			t.Errorf("batches of %v, want 1 and then the 40 that came meanwhile", sizes)
		}
	})
}

func TestErrorAnswersTheWholeBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		b := newBatcher(func([]int) ([]int, error) { return nil, broken }, never)
		done := make(chan struct{})
		go func() { defer close(done); b.run() }()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				if _, err := b.do(i); !errors.Is(err, broken) {
					t.Errorf("request %d was answered %v, want the flush's error", i, err)
				}
			})
		}
		all.Wait()
		close(b.queue)
		<-done
	})
}

func TestClosedBatcherFlushesWhatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flushed := 0
		b := newBatcher(func(requests []int) ([]int, error) {
			flushed += len(requests)
			return requests, nil
		}, never)
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() { b.do(i) })
		}
		synctest.Wait() // all are in the queue
		close(b.queue)
		begun := time.Now()
		b.run()
		all.Wait()
		if flushed != 30 || time.Since(begun) != 0 {
			t.Errorf("%d requests were flushed after %s, want 30 at once", flushed, time.Since(begun))
		}
	})
}

// A batch is flushed as soon as the last one that can join it has.
func TestBatchIsFullWhenNobodyIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, sizes := batches(t, func(gathered int) bool { return gathered == 16 })
		begun := time.Now()
		doAll(t, b, 16)
		doAll(t, b, 16)
		if got := sizes(); len(got) != 2 || time.Since(begun) != 0 {
			t.Errorf("batches of %v after %s, want two of 16 and no wait", got, time.Since(begun))
		}
	})
}
