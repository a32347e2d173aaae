package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The progress that a command reports is bounded. Nothing that the command may write is
// an error: the last valid line counts, and the first invalid one is named.
func TestProgress(t *testing.T) {
	long := strings.Repeat("ä", 150)
	for _, c := range []struct{ name, file, want, wrong string }{
		{"nothing", "", "", ""},
		{"the last line", `{"done":1,"total":4}` + "\n" + `{"done":3,"total":4,"text":"third"}` + "\n", "3 of 4 (75%): third", ""},
		{"a line without its end that is whole", `{"done":1}`, "1 done", ""},
		{"half a line", `{"done":1}` + "\n" + `{"done":2,"to`, "1 done", ""},
		{"text alone", `{"text":"linking"}` + "\n\n", "linking", ""},
		{"a total alone", `{"total":0}` + "\n", "0 to do", ""},
		{"more than all", `{"done":5,"total":4}` + "\n", "5 of 4", ""},
		{"further keys", `{"done":1,"eta":"soon"}` + "\n", "1 done", ""},
		{"malformed lines", `{"done":1}` + "\nhello\n{}\n" + `{"done":2}` + "\n" + `{"done":-1}` + "\n", "2 done",
			`line 2 of its report: expected a line of JSON such as {"done":3,"total":10,"text":"third of ten"}`},
		{"less than nothing", `{"done":-1}` + "\n", "", "line 1 of its report: done and total are not negative"},
		{"a fraction", `{"done":0.5}` + "\n", "", "line 1 of its report: expected a line of JSON"},
		{"says nothing", "null\n", "", "line 1 of its report: it has none of done, total and text"},
		{"what moves a cursor", `{"text":"a\u001b[2Jb\nc"}` + "\n", "a [2Jb c", ""},
		{"a long text", `{"text":"` + long + `"}` + "\n", long[:200] + "…", ""},
		{"a long file", strings.Repeat(`{"done":1}`+"\n", 10000) + "oops\n" + `{"done":7}` + "\n", "7 done", "a line of its report: expected a line of JSON"},
		{"one endless line", strings.Repeat("x", 200000), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			commit(t, s, kernel.Create(plain(1)))
			a := kernel.AttemptID{Job: plain(1).ID, N: 1}
			path := filepath.Join(dir, vizierDir, jobPath(a.Job, reportName(a)))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := s.Progress(a)
			if p.String() != c.want || c.wrong == "" && p.Wrong != "" || !strings.HasPrefix(p.Wrong, c.wrong) {
				t.Errorf("%q, wrong: %q; want %q, %q", p, p.Wrong, c.want, c.wrong)
			}
		})
	}
}

// A symbolic link in the place of a report is not followed.
func TestProgressFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	a := kernel.AttemptID{Job: plain(1).ID, N: 1}
	path := filepath.Join(dir, vizierDir, jobPath(a.Job, reportName(a)))
	secret := filepath.Join(dir, "secret")
	for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(secret, []byte(`{"text":"secret"}`), 0o600), os.Symlink(secret, path)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if p := s.Progress(a); !p.Empty() || p.Wrong == "" {
		t.Errorf("%q, %q", p, p.Wrong)
	}
	if p := s.Progress(kernel.AttemptID{Job: "../x", N: 1}); !p.Empty() {
		t.Errorf("%q", p)
	}
}
