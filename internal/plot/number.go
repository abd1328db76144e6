package plot

import (
	"strconv"
	"strings"
)

// Number writes a figure with commas between thousands, as in 28,000, and with two
// decimals at most.
func Number(value float64) string {
	text := strconv.FormatFloat(value, 'f', 2, 64)
	whole, decimals, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if decimals = strings.TrimRight(decimals, "0"); decimals != "" {
		whole += "." + decimals
	}
	return sign + whole
}
