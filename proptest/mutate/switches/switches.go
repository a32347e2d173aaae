// Package switches lets one program hold all mutants of its code. Each is a call of
// one of these functions, which does what the code did unless its mutant is on.
// Command mutate writes the calls; nothing else imports this.
package switches

import (
	"cmp"
	"os"
	"strconv"
	"strings"
)

// Variable names the environment variable with the number of the mutant that is on, a
// space, and a file. A byte of that file becomes 1 when the mutant of that number is
// executed, whoever executes it and however that process ends. Both may be empty.
const Variable = "MUTANT"

var (
	active = -1
	seen   []byte // nil: nobody asks
)

func init() {
	number, file, _ := strings.Cut(os.Getenv(Variable), " ")
	if n, err := strconv.Atoi(number); err == nil {
		active = n
	}
	if file != "" {
		seen = share(file)
	}
}

func on(n int) bool {
	if n < len(seen) {
		seen[n] = 1
	}
	return n == active
}

// Keep reports whether a statement is executed: unless its mutant is on.
func Keep(n int) bool { return !on(n) }

// Bool returns b, or its negation.
func Bool(n int, b bool) bool { return b != on(n) }

// And returns x && y, or x || y.
func And(n int, x bool, y func() bool) bool {
	if on(n) {
		return x || y()
	}
	return x && y()
}

// Or returns x || y, or x && y.
func Or(n int, x bool, y func() bool) bool {
	if on(n) {
		return x && y()
	}
	return x || y()
}

// Less returns x < y, or x <= y.
func Less[T cmp.Ordered](n int, x, y T) bool { return x < y || on(n) && x == y }

// LessOrEqual returns x <= y, or x < y.
func LessOrEqual[T cmp.Ordered](n int, x, y T) bool { return x < y || !on(n) && x == y }

// More returns x > y, or x >= y.
func More[T cmp.Ordered](n int, x, y T) bool { return x > y || on(n) && x == y }

// MoreOrEqual returns x >= y, or x > y.
func MoreOrEqual[T cmp.Ordered](n int, x, y T) bool { return x > y || !on(n) && x == y }

type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Plus returns x + y, or x - y.
func Plus[T number](n int, x, y T) T {
	if on(n) {
		return x - y
	}
	return x + y
}

// Minus returns x - y, or x + y.
func Minus[T number](n int, x, y T) T {
	if on(n) {
		return x + y
	}
	return x - y
}

// Constant returns v, or the next number.
func Constant[T number](n int, v T) T {
	if on(n) {
		return v + 1
	}
	return v
}

// Result returns what f returns, or nil without calling it.
func Result[T any](n int, f func() T) (v T) {
	if !on(n) {
		v = f()
	}
	return v
}
