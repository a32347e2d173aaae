package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// notices says that a directory is new at the first call, and what is put into it.
type notices struct {
	changed chan struct{}
	watched [][]string
}

func (n *notices) Watch(dirs []string) bool {
	n.watched = append(n.watched, dirs)
	return len(n.watched) == 1
}

func (n *notices) Changed() <-chan struct{} { return n.changed }

// A watcher makes a pass when something changes, when something is due, and at each poll; while runs are open it
// looks at them each second. Another watcher is no news, and a failed pass is repeated.
func TestAWatcherLooksWhenSomethingMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(newMemory(), "a.prompt.md")
		x := f.inbox()
		n := &notices{changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var passes, looks []time.Duration
		var failed []string
		var taken, ended int
		over := make(chan struct{})
		go func() {
			defer close(over)
			x.Watch(ctx, n, time.Minute, func(rep InboxReport, err error) {
				at := time.Since(begun)
				switch {
				case err != nil:
					failed = append(failed, err.Error())
				case rep.Dirs == nil:
					looks = append(looks, at)
				default:
					passes = append(passes, at)
				}
				taken, ended = taken+len(rep.Taken), ended+len(rep.Ended)
			})
		}()
		await := func(d time.Duration, what string, want ...any) {
			t.Helper()
			f.m.see()
			time.Sleep(d)
			synctest.Wait()
			if got := fmt.Sprint(len(passes), len(looks), taken, ended, failed); got != fmt.Sprint(want...) {
				t.Errorf("%s: %s, want %s: passes at %v, looks at %v", what, got, fmt.Sprint(want...), passes, looks)
			}
		}
		await(0, "at once", 1, 0, 1, 0, []string(nil))
		await(500*time.Millisecond, "the directory is new", 2, 0, 1, 0, []string(nil))
		await(2*time.Second, "the run is open", 2, 2, 1, 0, []string(nil))
		j := f.own()
		j.State.Status, j.State.Finished = kernel.Succeeded, at
		f.m.jobs[j.ID] = j
		await(time.Second, "the run ends", 2, 3, 1, 1, []string(nil))
		await(10*time.Second, "nothing is open", 2, 3, 1, 1, []string(nil))
		f.files["b.prompt.md"] = "do that"
		n.changed <- struct{}{}
		await(500*time.Millisecond, "a file is new", 3, 3, 2, 1, []string(nil))
		for _, j := range f.m.jobs {
			j.State.Status, j.State.Finished = kernel.Succeeded, at
			f.m.jobs[j.ID] = j
		}
		await(time.Second, "it ends", 3, 4, 2, 2, []string(nil))
		await(time.Minute, "a poll", 4, 4, 2, 2, []string(nil))
		f.busy = 1
		n.changed <- struct{}{}
		await(time.Millisecond, "another watcher is at work", 4, 4, 2, 2, []string(nil))
		await(time.Minute, "it has ended", 5, 4, 2, 2, []string(nil))
		f.m.at = f.m.n + 2 // the folder cannot be read
		n.changed <- struct{}{}
		await(time.Millisecond, "a pass that fails", 5, 4, 2, 2, []string{errDisk.Error()})
		await(time.Second, "it is repeated", 6, 4, 2, 2, []string{errDisk.Error()})
		cancel()
		<-over
		if slices.ContainsFunc(n.watched, func(dirs []string) bool { return strings.Join(dirs, "|") != "" || len(dirs) != 1 }) {
			t.Errorf("it watches %q", n.watched)
		}
	})
}
