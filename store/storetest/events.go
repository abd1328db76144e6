package storetest

import (
	"time"

	"github.com/waybill-go/waybill"
)

var eventsCases = []testCase{
	{"come in the order they were fired, page by page", func(b *scene) {
		b.start()
		b.fire(waybill.RawEvent{Name: "other", Payload: []byte(`1`)})
		ids := b.fire(Parcel{N: 0}, Parcel{N: 1}, waybill.RawEvent{Name: "other", Version: 3, Payload: []byte(`[2]`), Headers: map[string]string{"k": "v"}}, Parcel{N: 2})
		var got []int64
		for after := int64(0); ; {
			page, err := b.Store.Events(b.ctx, waybill.EventsRequest{Name: parcelEvent, After: after, Limit: 2})
			b.must(err)
			for _, event := range page {
				got, after = append(got, event.ID), event.ID
			}
			if len(page) < 2 {
				break
			}
		}
		equal(b, "ids", got, []int64{ids[0], ids[1], ids[3]})
		all, err := b.Store.Events(b.ctx, waybill.EventsRequest{Limit: 10})
		b.must(err)
		equal(b, "of any name", len(all), 5)
		event := *all[3]
		near(b, "recorded_at", waybill.StampOf(event.RecordedAt), b.now())
		event.RecordedAt, event.OccurredAt, event.CorrelationID = time.Time{}, time.Time{}, ""
		equal(b, "event", event, waybill.Event{ID: ids[2], Name: "other", Version: 3, Payload: []byte(`[2]`), Headers: map[string]string{"k": "v"}})
		_, err = b.Store.Events(b.ctx, waybill.EventsRequest{})
		wantErr(b, "no limit", err)
	}},
}
