package view_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// picture is the parts of a picture that tests look at, or a failure if it is no XML.
type picture struct {
	boxes []box
	texts []string
	thick int // arrows of the critical path
	width int
}

type box struct{ x, y, width, height int }

func (a box) meets(b box) bool {
	return a.x < b.x+b.width && b.x < a.x+a.width && a.y < b.y+b.height && b.y < a.y+a.height
}

func drawn(t *testing.T, svg string) (p picture) {
	t.Helper()
	if dir := os.Getenv("PICTURES"); dir != "" { // for looking at
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")+".svg"), []byte(svg), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := xml.NewDecoder(strings.NewReader(svg))
	groups := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("%v in\n%.500s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			at := map[string]string{}
			for _, a := range e.Attr {
				at[a.Name.Local] = a.Value
			}
			number := func(name string) int { n, _ := strconv.Atoi(at[name]); return n }
			switch {
			case e.Name.Local == "g":
				groups++
			case e.Name.Local == "svg":
				p.width = number("width")
			case e.Name.Local == "rect" && groups > 2: // the first two are the legend and what holds the rest
				p.boxes = append(p.boxes, box{number("x"), number("y"), number("width"), number("height")})
			case e.Name.Local == "path" && at["marker-end"] != "" && at["stroke-width"] == "4":
				p.thick++
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(e)); text != "" {
				p.texts = append(p.texts, text)
			}
		}
	}
}

// A picture has every job once and no two in one place, whatever the graph looks
// like; it says what the colours mean; and nothing that a job is called breaks out.
func TestSVG(t *testing.T) {
	t.Parallel()
	chain := func(n int) (jobs []kernel.Job) {
		for i := range n {
			jobs = append(jobs, job(fmt.Sprintf("j%d", i), i, kernel.WaitingOnDeps))
			if i > 0 {
				after(kernel.JobID(fmt.Sprintf("j%d", i-1)))(&jobs[i])
			}
		}
		return jobs
	}
	mesh := func(n int) (jobs []kernel.Job) {
		for i := range n {
			j := job(fmt.Sprintf("j%d", i), i, kernel.Status(i%9))
			for k := 1; k <= 3 && i-k*k >= 0; k++ {
				after(kernel.JobID(fmt.Sprintf("j%d", i-k*k)))(&j)
			}
			jobs = append(jobs, j)
		}
		return jobs
	}
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want int
	}{
		"one":   {[]kernel.Job{job("a", 0, kernel.Running)}, 1},
		"chain": {chain(40), 40},
		"apart": {func() (jobs []kernel.Job) {
			for i := range 1000 {
				jobs = append(jobs, job(fmt.Sprintf("j%d", i), i, kernel.Queued))
			}
			return jobs
		}(), 1000},
		"mesh":     {mesh(40), 40},
		"big mesh": {mesh(1000), 1000},
		"cycle": {[]kernel.Job{job("a", 0, kernel.WaitingOnDeps, after("c")), job("b", 1, kernel.WaitingOnDeps, after("a")),
			job("c", 2, kernel.WaitingOnDeps, after("b", "c"))}, 3},
		"long reach": {append(chain(200), func() kernel.Job {
			j := job("end", 999, kernel.WaitingOnDeps)
			for i := range 200 {
				after(kernel.JobID(fmt.Sprintf("j%d", i)))(&j)
			}
			return j
		}()), 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			p := drawn(t, view.ScheduleOf(snap(c.jobs...), view.ScheduleOptions{All: true}).SVG())
			t.Log(time.Since(begun), p.width)
			if len(p.boxes) != c.want || p.width > 16_000 {
				t.Fatalf("%d boxes, want %d; %d pixels wide", len(p.boxes), c.want, p.width)
			}
			for i, a := range p.boxes {
				for _, b := range p.boxes[:i] {
					if a.meets(b) {
						t.Fatalf("%+v and %+v are in one place", a, b)
					}
				}
			}
		})
	}
}

// What stands in a picture is what a person reads: signs and words beside colours,
// names as they are, the chain that takes longest.
func TestWhatSVGTells(t *testing.T) {
	t.Parallel()
	named := func(name string) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Name = name } }
	p := drawn(t, view.ScheduleOf(snap(
		job("base", 0, kernel.Succeeded, took(1)), job("slow", 1, kernel.Succeeded, took(30), after("base")), job("fast", 2, kernel.Failed, took(2), after("base")),
		job("end", 3, kernel.WaitingOnApproval, after("slow", "fast"), named(`<script>alert("&")</script>`), needs(t, "custom:tok:x")),
		job("wide", 4, kernel.Queued, named("名前がとても長いジョブの名前です、本当に")), job("odd", 5, kernel.Queued, named("a\x1b[2Jb\uffff"))), view.ScheduleOptions{All: true}).SVG())
	all := strings.Join(p.texts, "\n")
	for _, want := range []string{"✓ succeeded", "✗ failed", "‖ waiting_on_approval", "○ queued", "critical path", `<script>alert("&")</script>`, "<script>alert(\"&\")</scr…", "custom:tok:x", "名前がとても長いジョブ…", "a\\x1b[2Jb\ufffd"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	for n, jobs := range [][]kernel.Job{{job("a", 0, kernel.Queued)}, {job("a", 0, kernel.Queued), job("b", 1, kernel.Queued, after("a"))}} {
		p := drawn(t, view.ScheduleOf(snap(jobs...), view.ScheduleOptions{}).SVG())
		if told := strings.Contains(strings.Join(p.texts, "\n"), "critical path"); told != (n > 0) || p.thick != n {
			t.Errorf("of %d jobs the critical path has %d arrows; the legend tells it: %t", n+1, p.thick, told)
		}
	}
	if p.thick != 2 {
		t.Errorf("%d arrows are on the critical path", p.thick)
	}
	if m := regexp.MustCompile(`[\x00-\x08\x0b-\x1f]`).FindString(all); m != "" {
		t.Errorf("%q is in it", m)
	}
}
