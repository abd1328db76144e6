package waybill_test

import (
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill"
)

// Upgrade turns what earlier releases fired into what this one declares. The rows stay as
// they are: a receiver sees orders of version 1 that still wait as orders of version 2.
func ExampleDeclare_upgrade() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{
		Version: 2,
		Upgrade: func(payload json.RawMessage, from int) (json.RawMessage, error) {
			var v1 struct { // from can only be 1: there are no others before 2
				Number   int    `json:"number"`
				Customer string `json:"customer"`
			}
			if err := json.Unmarshal(payload, &v1); err != nil {
				return nil, err
			}
			return json.Marshal(OrderPlaced{ID: v1.Number, Email: v1.Customer})
		},
	})

	waiting := &waybill.Delivery{Event: &waybill.Event{
		Name: "order.placed", Version: 1, Payload: []byte(`{"number":7,"customer":"ada@example.com"}`),
	}}
	order, err := waybill.Decode[OrderPlaced](reg, waiting) // as On does for its receiver
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("order %d of %s\n", order.ID, order.Email)
	// Output:
	// order 7 of ada@example.com
}
