package config

import "strings"

// namesake returns the one of keys that ends as key does, in another table; "" if there is none, or more than one.
func namesake(key string, keys []string) (found string) {
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, k := range keys {
		if k[strings.LastIndexByte(k, '.')+1:] != last {
			continue
		}
		if found != "" {
			return ""
		}
		found = k
	}
	return found
}

// Nearest returns the name closest to word, or "" if none is close enough to
// have been meant.
func Nearest(word string, names []string) string {
	best, found := len(word)/3+2, ""
	for _, n := range names {
		if d := distance(word, n); d < best {
			best, found = d, n
		}
	}
	return found
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
