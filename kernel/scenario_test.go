package kernel_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scenarios")

// A scenario file is a dialogue: blocks of commands, each followed by a line
// of dashes and what the scheduler answered. Blocks are parted by empty lines;
// lines that start with # are for the reader.
//
//	job NAME [KEY=VALUE …]   enqueue a job; its id is its name (see spec)
//	jobs … end               the same for several jobs at once, one per line
//	tick                     decide, and do what was decided
//	finish NAME [exit=N] [class=C] [outcome=O] [without=LABEL;…]
//	die NAME [exit=N …]      its runner is gone; with exit, a result is on record
//	refuse NAME WHY          its executor says no
//	approve NAME, reject NAME [REASON…], retry NAME, gc AGE
//	cancel NAME [RUN …]      RUN is cancelled as a whole
//	clock +5s
//	marker LABEL OWNER, unmarker LABEL OWNER, present LABEL, absent LABEL
//	branch NAME COMMIT, unbranch NAME, checkout NAME, dirty, clean, broken WHY, mended
//	limit [max_running=N] [POOL=N …]
//	merging WHAT
//
// Commands but tick do not tick: a story shows each step.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if got == string(data) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: -update rewrites it; look at the difference before you commit it\n%s", file, difference(string(data), got))
		})
	}
}

const dashes = "----"

// play runs a scenario and returns its text with the answers that it got.
func play(t *testing.T, text string) string {
	w := newStage(t)
	var out []string
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		if cut := slices.Index(lines, dashes); cut >= 0 {
			lines = lines[:cut]
		}
		var answer []string
		for i := 0; i < len(lines); i++ {
			if lines[i] == "jobs" {
				end := i + 1 + slices.Index(lines[i+1:], "end")
				if end <= i {
					t.Fatalf("jobs without end: %q", block)
				}
				answer = append(answer, w.enqueue(lines[i+1:end])...)
				i = end
				continue
			}
			answer = append(answer, w.do(lines[i])...)
		}
		if len(answer) > 0 {
			lines = append(append(lines, dashes), answer...)
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

// difference returns the first line in which two texts differ, with its
// context.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	around := func(lines []string) string { return strings.Join(lines[max(0, at-3):min(len(lines), at+8)], "\n  ") }
	return "want\n  " + around(a) + "\ngot\n  " + around(b)
}
