package local

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Backlog says all there is to know of the queue but how long its oldest message
// has waited, which it keeps no record of: the row does. It never fails.
func (b *Backend) Backlog(context.Context) (waybill.Backlog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	backlog := waybill.Backlog{
		Ready:     waybill.Known(int64(b.count)),
		Running:   waybill.Known(b.running.Load()),
		Consumers: waybill.Known(b.consumers.Load()),
	}
	if b.count == 0 {
		backlog.Oldest = waybill.Known(time.Duration(0))
	}
	return backlog, nil
}
