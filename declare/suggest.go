package declare

import "strings"

// nearest returns the known name that a misspelt one most likely means, or "".
func nearest(name string, known []string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if len(name) > 40 {
		return ""
	}
	best, least := "", len(name)
	for _, candidate := range known {
		distance := editDistance(name, candidate)
		if distance < least && distance <= max(2, len(candidate)/3) { // more is another word
			best, least = candidate, distance
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
