package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/internal/promtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// here is the directory of this package; tests change to others.
var here, _ = os.Getwd()

// commands are the program vizier, and the kernel for browsers, built once.
var commands = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "vizier-web-"); err != nil {
		return "", err
	}
	for _, b := range []struct {
		file, pkg string
		env       []string
	}{{"vizier", "../vizier", nil}, {"kernel.wasm", "./wasm", []string{"GOOS=js", "GOARCH=wasm"}}} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, b.file), b.pkg)
		cmd.Env, cmd.Dir = append(append(os.Environ(), "CGO_ENABLED=0"), b.env...), here
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%w: %s", err, out)
		}
	}
	return dir, nil
})

// atEnd is what is left to do when all tests are through.
var atEnd []func()

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == askingRole {
		asks(os.Args[2:])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == serveRole {
		serveFrom(os.Args[2], os.Args[3:])
		return
	}
	code := m.Run()
	for _, f := range atEnd {
		f()
	}
	if dir, err := commands(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func programs(t *testing.T) string {
	t.Helper()
	dir, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// assembled are the assets as the Makefile makes them: to pack the kernel takes long.
var assembled = sync.OnceValues(func() (assets, error) {
	dir, err := commands()
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	a := assets{}
	for name, file := range map[string]string{hostFile: filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", hostFile), "kernel.wasm": filepath.Join(dir, "kernel.wasm"),
		"index.html": filepath.Join(here, "static", "index.html"), "style.css": filepath.Join(here, "static", "style.css"), "app.js": filepath.Join(here, "static", "app.js")} {
		if a[name], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(a["kernel.wasm"])
	err = errors.Join(err, w.Close())
	a[kernelFile] = packed.Bytes()
	return a, err
})

// files returns the assets, for a test to change.
func files(t *testing.T) assets {
	t.Helper()
	a, err := assembled()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Skip("needs the files of Go for WebAssembly: ", err)
	case err != nil:
		t.Fatal(err)
	}
	return maps.Clone(a)
}

// field is a scratch repository in the working directory, and the command line in it.
type field struct {
	*testing.T
	dir string
}

func newField(t *testing.T) field {
	programs(t) // before HOME is another
	dir := disktest.Dir(t)
	t.Chdir(dir)
	for k, v := range map[string]string{"HOME": dir, "VIZIER_SCHEDULER_RESIDENT": "false", "GIT_AUTHOR_NAME": "ann", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "ann", "GIT_COMMITTER_EMAIL": "a@b"} {
		t.Setenv(k, v)
	}
	f := field{t, dir}
	for _, args := range [][]string{{"init", "-q", "-b", "main", "."}, {"commit", "-q", "--allow-empty", "-m", "start"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return f
}

// vizier runs a command; of its exit codes those from 2 on are errors.
func (f field) vizier(in string, args ...string) string {
	f.Helper()
	cmd := exec.Command(filepath.Join(programs(f.T), "vizier"), args...)
	var out, diagnostics bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &diagnostics
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		f.Fatalf("vizier %v: %v: %s", args, err, diagnostics.String())
	}
	return out.String()
}

// flow has a job of each kind that people are asked about, and returns when all stand.
func (f field) flow() {
	f.Helper()
	f.vizier(`{"ref":"build","name":"build","command":["sh","-c","echo built"]}
{"ref":"lint","name":"lint <b>","command":["sh","-c","echo 'grün' >&2; exit 3"],"after":["build"]}
{"ref":"deploy","name":"deploy","command":["true"],"after":["build"],"approval":true}
{"ref":"tell","name":"tell","command":["true"],"after":["deploy"]}
{"ref":"report","name":"report","command":["true"],"after":["lint"]}
`, "submit", "--batch")
	f.vizier("", "wait", "1/lint")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(f.vizier("", "jobs", "status", "1/deploy"), "waiting_on_approval"); {
		if time.Now().After(deadline) {
			f.Fatal(f.vizier("", "ls", "--all"))
		}
	}
}

// configure writes the configuration of the repository.
func (f field) configure(text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, ".vizier", "config.toml"), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f field) id(ref string) string {
	f.Helper()
	var doc struct{ Job string }
	if text := f.vizier("", "jobs", "why", ref, "--format", "json"); json.Unmarshal([]byte(text), &doc) != nil || doc.Job == "" {
		f.Fatalf("no id of %s: %s", ref, text)
	}
	return doc.Job
}

func (f field) server(a assets) (*server, *httptest.Server) {
	f.Helper()
	r, err := vizier.Open(f.dir, vizier.Options{Environ: os.Environ(), NoResident: true, Program: filepath.Join(programs(f.T), "vizier")})
	if err != nil {
		f.Fatal(err)
	}
	s := newServer(r, a)
	web := httptest.NewServer(s)
	f.Cleanup(func() { end(web) })
	return s, web
}

// end ends a server, and the connections on which pages wait for events.
func end(web *httptest.Server) {
	web.Listener.Close()
	web.CloseClientConnections()
	web.Close()
}

func (f field) get(url string, header ...string) (int, string) {
	f.Helper()
	q, err := http.NewRequestWithContext(f.Context(), http.MethodGet, url, nil)
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
		}
		q.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		f.Fatal(err)
	}
	defer got.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(got.Body); err != nil {
		f.Fatal(err)
	}
	return got.StatusCode, b.String()
}

// What the page says would follow is what the command line says, to the byte: natively,
// and as WebAssembly where there is node to run it.
func TestThePageForeseesAsTheCommandLine(t *testing.T) {
	f := newField(t)
	f.flow()
	s, web := f.server(nil)
	code, state := f.get(web.URL + s.prefix + "state")
	if code != http.StatusOK {
		t.Fatal(code, state)
	}
	p, err := page.Read([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	type question struct {
		What string    `json:"what"`
		Job  string    `json:"job"`
		Now  time.Time `json:"now"`
	}
	var asked []question
	var want []string
	for _, q := range [][2]string{{"approve", "1/deploy"}, {"reject", "1/deploy"}, {"cancel", "1/deploy"}, {"cancel", "1/tell"}, {"retry", "1/lint"}} {
		text := f.vizier("", "what-if", "--"+q[0], q[1], "--format", "json")
		var doc answer.Foreseen
		if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Jobs) == 0 {
			t.Fatalf("%v: %v: %s", q, err, text)
		}
		asked, want = append(asked, question{q[0], f.id(q[1]), doc.Now}), append(want, text)
		args, err := json.Marshal(asked[len(asked)-1])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Ask("what-if", args); err != nil || got != text {
			t.Errorf("%v: %v: the page says\n%s\nthe command line\n%s", q, err, got, text)
		}
	}

	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the answers in WebAssembly need node: ", err)
	}
	host := hostOf(t)
	given, err := json.Marshal(map[string]any{"state": state, "asked": asked})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "--stack-size=8192", "-e", `
		require(process.argv[1]);
		const go = new Go(), given = JSON.parse(require("fs").readFileSync(0, "utf8"));
		WebAssembly.instantiate(require("fs").readFileSync(process.argv[2]), go.importObject).then((w) => {
			go.run(w.instance);
			const out = [vizierKernel("read", given.state), ...given.asked.map((q) => vizierKernel("what-if", JSON.stringify(q)))];
			process.stdout.write(JSON.stringify(out), () => process.exit(0));
		});`, host, filepath.Join(programs(t), "kernel.wasm"))
	cmd.Stdin = bytes.NewReader(given)
	out, err := cmd.Output()
	var got []struct{ Answer, Error string }
	if err != nil || json.Unmarshal(out, &got) != nil || len(got) != len(want)+1 {
		t.Fatalf("%v: %s", err, out)
	}
	for i, text := range want {
		if got[i+1].Answer != text {
			t.Errorf("%v: in WebAssembly %s, the page says\n%s\nthe command line\n%s", asked[i], got[i+1].Error, got[i+1].Answer, text)
		}
	}
}

// What would start a job is for the page what it is for the command line. Where that depends on whether artifacts exist that the
// page has not seen, since many other jobs need somebody for longer, it says so.
func TestThePageAdvisesAsTheCommandLine(t *testing.T) {
	f := newField(t)
	f.vizier(strings.Repeat(`{"approval":true,"command":["true"]}`+"\n", 25), "submit", "--batch")
	for _, args := range []string{"submit --produce custom:t:f -- true", "wait 2", "submit --approval --need custom:t:f -- true", "submit --after 3 --produce custom:t:f -- true",
		"clean --yes --force 2", "cancel 3"} {
		f.vizier("", strings.Fields(args)...)
	}
	s, web := f.server(nil)
	_, state := f.get(web.URL + s.prefix + "state")
	p, err := page.Read([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"3", "4"} {
		var why struct {
			Actions []struct {
				Command []string `json:"command"`
				Text    string   `json:"text"`
			} `json:"actions"`
		}
		var shown struct{ Actions []string }
		if err := json.Unmarshal([]byte(f.vizier("", "why", ref, "--format", "json")), &why); err != nil || len(why.Actions) < 2 {
			t.Fatalf("why %s: %v, %+v", ref, err, why)
		}
		text, err := p.Ask("job", []byte(printed(map[string]any{"job": f.id(ref)})))
		if err == nil {
			err = json.Unmarshal([]byte(text), &shown)
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, a := range why.Actions {
			want = append(want, cmp.Or(strings.Join(a.Command, " "), a.Text))
		}
		if unseen := len(shown.Actions) == 1 && strings.HasSuffix(shown.Actions[0], "not seen: vizier why "+ref+" says it"); !unseen && !slices.Equal(shown.Actions, want) {
			t.Errorf("%s: the page says %q, the command line %q", ref, shown.Actions, want)
		}
	}
}

// hostOf returns the file that Go has for hosts of WebAssembly.
func hostOf(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), hostFile)
	if err := os.WriteFile(file, files(t)[hostFile], 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Requests that do not come from the page of this server process, on this
// machine, are refused; and no request changes anything.
func TestWhoMayAsk(t *testing.T) {
	f := newField(t)
	f.flow()
	id := f.id("1/lint")
	s, web := f.server(files(t))
	base := web.URL + s.prefix
	for _, c := range []struct {
		path   string
		code   int
		header []string
	}{
		{"", 200, nil},
		{"", 200, []string{"Host", "localhost:1"}},
		{"", 200, []string{"Host", "[::1]:8080"}},
		{"state", 200, []string{"Sec-Fetch-Site", "same-origin", "Origin", web.URL}},
		{"", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"", 403, []string{"Host", "evil.example"}},
		{"state", 403, []string{"Host", "127.0.0.1.evil.example:80"}},
		{"state", 403, []string{"Host", ""}},
		{"state", 403, []string{"Origin", "http://evil.example"}},
		{"state", 403, []string{"Origin", "null"}},
		{"state", 403, []string{"Origin", "http://127.0.0.1:1"}},
		{"state", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}},
		{"", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{"state", 403, []string{"Sec-Fetch-Site", "same-site"}},
		{"../state", 404, nil},
		{"%2e%2e/%2e%2e/etc/passwd", 404, nil},
		{filepath.Join(here, "static", "app.js"), 404, nil},
		{"job/" + id, 200, nil},
		{"job/..%2f" + id, 404, nil},
		{"job/none", 404, nil},
		{"job/" + strings.Repeat("0", len(id)), 404, nil},
		{"log/" + id + "/stderr", 200, nil},
		{"log/" + id + "/..%2fjob.json", 404, nil},
		{"log/" + id + "/job", 404, nil},
		{"log/..%2f..%2fconfig.toml%00/stdout", 404, nil},
	} {
		if c.header != nil && c.header[len(c.header)-1] == "" {
			continue // which the client fills in
		}
		if code, text := f.get(base+c.path, c.header...); code != c.code {
			t.Errorf("%s %v: %d, want %d: %s", c.path, c.header, code, c.code, text)
		}
	}
	for _, path := range []string{"/", "/state", "/events", "/favicon.ico", strings.ToLower(s.prefix)} {
		if code, _ := f.get(web.URL + path); code != http.StatusNotFound {
			t.Errorf("without the secret %s is %d", path, code)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		q, err := http.NewRequestWithContext(t.Context(), method, base+"state", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s, %v", method, got.Status, got.Header)
		}
	}
	q := httptest.NewRecorder()
	s.ServeHTTP(q, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+s.prefix, nil))
	if csp := q.Header().Get("Content-Security-Policy"); csp != policy || strings.Contains(csp, "unsafe-inline") || strings.Contains(csp, "'unsafe-eval'") {
		t.Errorf("the policy is %q", csp)
	}
	if other := newServer(s.r, nil); other.prefix == s.prefix {
		t.Error("two starts have one secret")
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.com:0", "127.0.0.1", "foo", "127.0.0.1:1x"} {
		if l, err := loopback(address); err == nil {
			l.Close()
			t.Errorf("it listens at %s", address)
		} else if exitCode(err) != 2 {
			t.Errorf("--listen %s: exit code %d", address, exitCode(err))
		}
	}
	l, err := loopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := loopback(l.Addr().String()); err == nil || !strings.HasSuffix(err.Error(), "another program has this port: name another one, or 0 for any free one") {
		t.Errorf("a port that is taken: %v", err)
	}
	if got := f.vizier("", "jobs", "status", "1/deploy"); !strings.Contains(got, "waiting_on_approval") {
		t.Errorf("something was decided: %s", got)
	}
}

// A scraper gets what `vizier metrics` prints, and without the secret only if
// that was enabled.
func TestMetricsForWhoScrapes(t *testing.T) {
	f := newField(t)
	f.flow()
	s, web := f.server(nil)
	if code, text := f.get(web.URL + "/metrics"); code != http.StatusNotFound {
		t.Errorf("without the secret: %d %s", code, text)
	}
	s.open()
	for _, address := range []string{web.URL + s.prefix + "metrics", web.URL + "/metrics"} {
		code, text := f.get(address)
		for _, want := range []string{`vizier_jobs{repository="` + s.r.Root + `",status="waiting_on_approval"} 1`, `vizier_attempts_ended_last_hour{repository="` + s.r.Root + `",result="exit"} 1`,
			`vizier_attempts_ended_last_hour{repository="` + s.r.Root + `",result="succeeded"} 1`, "\nvizier_tick_seconds"} {
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%d: no %s in\n%s", code, want, text)
			}
		}
		if code, _ := f.get(address, "Host", "evil.example"); code != http.StatusForbidden {
			t.Errorf("for another host: %d", code)
		}
		promtest.Check(t, text)
	}
	// The configuration is the present one, also if nobody looks at the page.
	f.configure("[pools]\ngpu = 4\n")
	if _, text := f.get(web.URL + "/metrics"); !strings.Contains(text, `vizier_pool_units{pool="gpu",repository="`+s.r.Root+`"} 4`) {
		t.Errorf("a new pool is missing in\n%s", text)
	}
}

// While the repository is elsewhere, every request gets an error and no old content.
func TestARepositoryThatWasMoved(t *testing.T) {
	f := newField(t)
	f.flow()
	id := f.id("1/lint")
	s, web := f.server(files(t))
	s.open()
	all := []string{s.prefix, s.prefix + "state", s.prefix + "job/" + id, s.prefix + "log/" + id + "/stderr", s.prefix + "events", s.prefix + "metrics", "/metrics"}
	expect := func(code int, says string) {
		t.Helper()
		for _, path := range all {
			if strings.HasSuffix(path, "/events") && code == http.StatusOK {
				continue // which does not end
			}
			if got, text := f.get(web.URL + path); got != code || !strings.Contains(text, says) {
				t.Errorf("%s: %d %s", path, got, text)
			}
		}
	}
	expect(http.StatusOK, "")
	now := f.dir + ".moved"
	if err := os.Rename(f.dir, now); err != nil {
		t.Fatal(err)
	}
	expect(http.StatusServiceUnavailable, kernel.ErrMoved.Error())
	if err := os.Rename(now, f.dir); err != nil {
		t.Fatal(err)
	}
	expect(http.StatusOK, "")
}

// Whatever is asked for at the same time is answered, one after the other where it has to be.
func TestManyAskAtOnce(t *testing.T) {
	f := newField(t)
	f.flow()
	s, web := f.server(nil)
	id := f.id("1/lint")
	var all sync.WaitGroup
	for range 5 {
		for _, what := range []string{"state", "state?since=1", "job/" + id, "metrics", "log/" + id + "/stderr"} {
			all.Go(func() {
				if code, text := f.get(web.URL + s.prefix + what); code != http.StatusOK {
					t.Errorf("%s: %d %s", what, code, text)
				}
			})
		}
	}
	f.vizier("", "submit", "--approval", "--", "true")
	all.Wait()
}

// What a reader would not see, or would see turned round, the page shows as ls does.
func TestThePageShowsWhatIsNotSeen(t *testing.T) {
	f := newField(t)
	const odd = "a\u202eb\u2066\u200b\U000e0041"
	f.vizier("", "submit", "--name", odd, "--tag", "k="+odd, "--lock", "l"+odd, "--", "sh", "-c", `echo '{"exit":3,"reason":"'"$0"'"}' >$VIZIER_RESULT_FILE`, odd)
	f.vizier("", "submit", "--name", "👩\u200d👧 می\u200cخواهم", "--after", "1", "--approval", "--", "echo", odd)
	f.vizier("", "wait", "1")
	listed := f.vizier("", "ls", "--all")
	const as = `a\u202eb\u2066\u200b\U000e0041`
	if !strings.Contains(listed, as) || !strings.Contains(listed, "👩\u200d👧 می\u200cخواهم") {
		t.Fatalf("ls: %s", listed)
	}
	s, web := f.server(nil)
	_, state := f.get(web.URL + s.prefix + "state")
	p, err := page.Read([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]string{}
	for _, job := range []string{f.id("1"), f.id("2")} {
		_, read["details "+job] = f.get(web.URL + s.prefix + "job/" + job)
		for question, args := range map[string]map[string]any{"stand": {}, "job": {"job": job}, "graph": {"job": job}, "timeline": {}, "follows": {"what": "retry", "job": f.id("1")}} {
			text, err := p.Ask(question, []byte(printed(args)))
			if err != nil {
				t.Fatal(question, err)
			}
			read[question+" "+job] = text
		}
	}
	for name, text := range read {
		if !strings.HasPrefix(text, "<") {
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			text = fmt.Sprint(doc)
		}
		if answer.Visible(text, "\n\t") != text {
			t.Errorf("%s: %+q", name, text)
		}
		if !strings.Contains(text, as) && strings.HasSuffix(name, f.id("1")) && !strings.HasPrefix(name, "follows") {
			t.Errorf("%s does not have it: %+q", name, text)
		}
	}
	if _, err := p.Ask("follows", []byte(printed(map[string]any{"what": "cancel", "job": f.id("1")}))); err == nil || !strings.HasPrefix(err.Error(), "nothing to cancel: job 1 has ended") {
		t.Errorf("what is refused: %v", err)
	}
	if !strings.Contains(read["stand "+f.id("2")], "👩\u200d👧 می\u200cخواهم") {
		t.Errorf("what is read joined: %+q", read["stand "+f.id("2")])
	}
}

func (f field) piece(url string) (got piece) {
	f.Helper()
	if _, text := f.get(url); json.Unmarshal([]byte(text), &got) != nil {
		f.Fatalf("%s: %s", url, text)
	}
	return got
}

// Logs come from any byte of an attempt on, and whole letters at a time.
func TestLogsGoOn(t *testing.T) {
	f := newField(t)
	f.flow()
	s, web := f.server(nil)
	at := web.URL + s.prefix + "log/" + f.id("1/lint") + "/stderr"
	first := f.piece(at)
	file := "&file=" + first.File
	for query, want := range map[string]piece{"": {"", 0, 6, "grün\n"}, "?from=0" + file: {"", 0, 6, "grün\n"}, "?from=4" + file: {"", 4, 6, "n\n"}, "?from=6" + file: {"", 6, 6, ""},
		"?from=900" + file: {"", 0, 6, "grün\n"}, "?from=-1" + file: {"", 0, 6, "grün\n"}, "?from=4": {"", 0, 6, "grün\n"}} {
		want.File = first.File
		if got := f.piece(at + query); got != want {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
	if got := f.piece(at + "?from=0&ended" + file); got.Text != "grün\n" {
		t.Errorf("of what has ended: %+v", got)
	}
	f.vizier("", "submit", "--name", "half", "--", "printf", `a\303`)
	f.vizier("", "wait", "half")
	for query, want := range map[string]string{"": "a", "?ended": "a\ufffd"} {
		if got := f.piece(web.URL + s.prefix + "log/" + f.id("half") + "/stdout" + query); got.Text != want {
			t.Errorf("of a log that ends within a letter, %q: %q, want %q", query, got.Text, want)
		}
	}
	f.vizier("", "submit", "--name", "much", "--", "sh", "-c", "yes ü | head -c 599999; yes ü | head -c 20000 >&2")
	f.vizier("", "wait", "much")
	long := web.URL + s.prefix + "log/" + f.id("much") + "/stdout"
	want := f.piece(long)
	if lines := strings.Split(want.Text, "\n"); want.Next != 599999 || want.From < want.Next-mostLog || slices.ContainsFunc(lines[:len(lines)-1], func(l string) bool { return l != "ü" && l != "" }) {
		t.Errorf("of a long log the part from %d to %d: %.20q", want.From, want.Next, want.Text)
	}
	for _, from := range []int64{0, want.From - 2, want.From} {
		if got := f.piece(fmt.Sprintf("%s?from=%d&file=%s", long, from, want.File)); got != want {
			t.Errorf("of a long log from %d on the part from %d to %d, want the end, from %d to %d", from, got.From, got.Next, want.From, want.Next)
		}
	}
	if got := f.piece(strings.Replace(long, "stdout", "stderr", 1)); got.From != 0 || got.Next != 20000 {
		t.Errorf("of a short one the part from %d to %d", got.From, got.Next)
	}
	f.vizier("", "retry", "1/lint")
	f.vizier("", "wait", "1/lint")
	if again := f.piece(at + "?from=6" + file); again.File == first.File || again.Text != "grün\n" {
		t.Errorf("of the next attempt: %+v, the one before: %+v", again, first)
	}
	if code, text := f.get(strings.Replace(at, "stderr", "stdout", 1)); code != http.StatusOK || !strings.Contains(text, `"text":""`) {
		t.Errorf("of what printed nothing: %d %s", code, text)
	}
}

// A new client gets the events from now on; one that reconnects also gets those
// that it missed.
func TestEventsCatchUp(t *testing.T) {
	f := newField(t)
	f.flow()
	s, web := f.server(nil)
	connect := func(last string) (next func() (id string), stop func()) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+s.prefix+"events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			q.Header.Set("Last-Event-ID", last)
		}
		got, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(got.Body)
		return func() string {
			for lines.Scan() {
				if id, found := strings.CutPrefix(lines.Text(), "id: "); found {
					return id
				}
			}
			t.Fatal("the connection ended: ", lines.Err())
			return ""
		}, func() { got.Body.Close() }
	}
	next, stop := connect("")
	last := next()
	if last == "1" {
		t.Error("all that ever happened is told")
	}
	stop()
	f.vizier("", "submit", "--approval", "--", "true")
	var n int
	if _, err := fmt.Sscan(last, &n); err != nil {
		t.Fatal(err)
	}
	next, stop = connect(last)
	defer stop()
	if got := next(); got != fmt.Sprint(n+1) {
		t.Errorf("after %s came %s", last, got)
	}
	if err := os.Remove(s.r.Store.EventsFile()); err != nil { // as the documentation allows: the numbers begin again
		t.Fatal(err)
	}
	back, leave := connect(fmt.Sprint(n + 1))
	defer leave()
	f.vizier("", "submit", "--approval", "--", "true")
	for got := next(); got != "1"; got = next() { // who stayed first hears the rest of the old one
		if seq, err := strconv.Atoi(got); err != nil || seq <= n+1 {
			t.Fatalf("of the new log came %s", got)
		}
	}
	if got := back(); got != "1" {
		t.Errorf("of the new log came %s to who came back", got)
	}
}

// The page as one file asks nobody for anything, and its policy names all that runs.
func TestOneFileIsWhole(t *testing.T) {
	a := files(t)
	text, err := a.whole([]byte(`{"repository":"</script><b>"}`), "j")
	if err != nil {
		t.Fatal(err)
	}
	html := string(text)
	if odd := regexp.MustCompile(`(?i)(src|href)="[^d]`).FindString(html[:strings.Index(html, "<style>")]); odd != "" {
		t.Errorf("it asks for %s", odd)
	}
	if n := strings.Count(html, "</script>"); n != 4 {
		t.Errorf("%d scripts end, want 4", n)
	}
	for _, part := range []string{hostFile, "app.js", "style.css"} {
		if !strings.Contains(html, sum(a[part])) || !strings.Contains(html, string(a[part])) {
			t.Errorf("%s is not in it, or not in the policy", part)
		}
	}
	if bytes.Contains(a["app.js"], []byte("innerHTML")) {
		t.Error("text of others could become elements")
	}
}
