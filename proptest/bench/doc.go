// Package bench measures the whole program on real repositories, each figure
// as a ratio against something else in the same run (make bench).
//
// x-NAME is how many times as much it takes as NAME does, where less is better: git,
// tsp, nq, ninja, doit and task (go-task) are other programs, left out where they are not
// installed, floor is fork and exec of the same commands, go a program in Go that does
// nothing. Others, such as x-ten, are the same work in a smaller store. NAME-% is a share.
package bench
