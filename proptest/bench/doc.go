// Package bench measures the whole program on real repositories, each figure
// as a ratio against something else in the same run (make bench).
package bench
