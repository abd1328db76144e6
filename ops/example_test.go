package ops_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
	"github.com/waybill-go/waybill/store/sqlite"
)

// OrderPlaced is the event of the examples.
type OrderPlaced struct {
	ID int `json:"id"`
}

// shop returns a store in memory, in which an order was just placed.
func shop(ctx context.Context) (*sqlite.Store, error) {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(context.Context, OrderPlaced) error { return nil }, waybill.Options{Lane: "mail"})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		return nil, err
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	return store, err
}

// What is owed, for a check of one's own; WriteText shows all of the report to a person,
// as `bridge status` does, and its JSON is that of `bridge status --json`.
func ExampleStatus() {
	ctx := context.Background()
	store, err := shop(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	report, err := ops.Status(ctx, store, store.Registry(), nil) // with queues by lane, their backlogs too
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("owed:", report.Owed, "dead:", report.Dead)
	fmt.Println("late:", report.Oldest() > 10*time.Minute)
	for _, r := range report.Receivers {
		fmt.Printf("%s in lane %s: %d owed\n", r.Key, r.Lane, r.Owed)
	}
	// Output:
	// owed: 1 dead: 0
	// late: false
	// mail.receipt in lane mail: 1 owed
}

// Which lanes there are, and which of them stand still.
func ExampleLanes() {
	ctx := context.Background()
	store, err := shop(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	if _, err := store.PauseLane(ctx, waybill.PauseRequest{Lane: "mail", By: "ada", Reason: "the mail server moves"}); err != nil {
		fmt.Println(err)
		return
	}

	lanes, err := ops.Lanes(ctx, store, store.Registry())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, lane := range lanes {
		fmt.Printf("%s: %d owed to %v\n", lane.Lane, lane.Owed, lane.Receivers)
		if lane.Pause != nil {
			fmt.Printf("%s is paused by %s: %s\n", lane.Lane, lane.Pause.By, lane.Pause.Reason)
		}
	}
	// Output:
	// default: 0 owed to []
	// mail: 1 owed to [mail.receipt]
	// mail is paused by ada: the mail server moves
}
