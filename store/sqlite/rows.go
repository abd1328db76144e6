package sqlite

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	waybill "github.com/waybill-go/waybill"
)

// A batch of any size travels as one JSON array, in one bound parameter: the
// statement stays the same, and SQLite's limit on parameters is out of play.

// jsonArray encodes strings or numbers. A nil slice is an empty array.
func jsonArray[T string | int64](values []T) string {
	if values == nil {
		values = []T{}
	}
	text, _ := json.Marshal(values) // cannot fail on these types
	return string(text)
}

// noRows is what claims returns when no row can match.
const noRows = "[]"

// claims encodes a row of (id, claimed_by, claimed_at, extra...) for each item
// whose claim can match a row at all.
func claims[T any](items []T, row func(T) (waybill.Message, []any)) string {
	encoded := make([][]any, 0, len(items))
	for _, item := range items {
		message, extra := row(item)
		if message.Claim.Complete() && storable(message.Claim.By) {
			encoded = append(encoded, append([]any{message.DeliveryID, message.Claim.By, int64(message.Claim.At)}, extra...))
		}
	}
	text, _ := json.Marshal(encoded)
	return string(text)
}

// storable reports whether text comes out of JSON and of SQLite as it went in.
// A claim by any other owner is on no row.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}
