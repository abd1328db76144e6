package worker

import "sync"

// door is what every delivery goes through. It is shut in two steps, so that none is
// turned away while its row can still be given back, and none comes to batchers that
// have ended.
type door struct {
	opened chan struct{} // closed when Run begins

	mu    sync.Mutex
	state doorState

	working   sync.WaitGroup // deliveries that may run something, and outcomes on their way to the row
	declining sync.WaitGroup // deliveries that can only be declined
}

type doorState int

// States follow each other, and none comes twice.
const (
	doorUnopened doorState = iota
	doorOpen
	doorDeclining // what comes now is declined
	doorShut      // nothing comes in
)

// advance goes on to a state, unless the door is there or further.
func (d *door) advance(state doorState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if state <= d.state {
		return
	}
	if d.state == doorUnopened {
		close(d.opened)
	}
	d.state = state
}

// enter lets a delivery in. Its Done is called when the delivery leaves; it is nil if
// nothing comes in.
func (d *door) enter() *sync.WaitGroup {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.state {
	case doorOpen:
		d.working.Add(1)
		return &d.working
	case doorDeclining:
		d.declining.Add(1)
		return &d.declining
	default:
		return nil
	}
}

// isOpen reports whether a delivery that comes now may run.
func (d *door) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state == doorOpen
}

// empty returns when nobody is inside, and nobody can come in. However many go on
// coming, that is as soon as what worked is done: they are counted apart.
func (d *door) empty() {
	d.advance(doorDeclining)
	d.working.Wait()
	d.advance(doorShut)
	d.declining.Wait()
}
