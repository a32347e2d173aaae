package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// chromium is a browser for all tests of this package.
var chromium = sync.OnceValues(func() (context.Context, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("needs chromium, of Debian's package of that name: %w", err)
	}
	profile, err := os.MkdirTemp("", "vizier-web-browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(patience), chromedp.Env("HOME="+profile, "TMPDIR="+profile), chromedp.WindowSize(900, 900))
	all, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(all)
	atEnd = append(atEnd, func() {
		_ = chromedp.Cancel(ctx)
		end()
		_ = os.RemoveAll(profile)
	})
	return ctx, chromedp.Do(ctx)
})

// patience is how long a test waits for what must come: one that passes hardly waits, also on a busy machine.
const patience = 3 * time.Minute

// detector says that this binary has the race detector.
var detector = false

// newBrowserField is newField of a test in the browser. The server is tried with the race
// detector elsewhere; with it, thousands of jobs take ten times as long.
func newBrowserField(t *testing.T) field {
	t.Helper()
	if detector {
		t.Skip("runs without the race detector")
	}
	if _, err := chromium(); err != nil {
		t.Skip(err)
	}
	return newField(t)
}

// tab is a page in the browser. What it complains of fails the test, but for what a test
// expects.
type tab struct {
	*testing.T
	ctx context.Context

	mu   sync.Mutex
	odd  []string
	lost bool // the server is meant to be gone, or to refuse
}

func newTab(t *testing.T) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Skip(err)
	}
	return tabOf(t, browser, chromedp.WithNewBrowserContext())
}

// another is a further tab of the same browser.
func (b *tab) another() *tab {
	b.Helper()
	return tabOf(b.T, b.ctx)
}

func tabOf(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(parent, options...)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // without a bound: that of the first call is the tab's
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			text, _ := json.Marshal(e.ExceptionDetails)
			b.complain(string(text))
		case *runtime.EventConsoleAPICalled:
			text, _ := json.Marshal(e.Args)
			b.complain(string(text))
		case *cdplog.EventEntryAdded: // violations of the policy among them
			b.complain(e.Entry.Text + " " + e.Entry.URL)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.ArtifactDir() // so that it is removed after the picture of a failure
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.odd) > 0 {
			t.Errorf("the browser complains of\n%s", strings.Join(b.odd, "\n"))
		}
		if t.Failed() {
			b.picture("failed")
		}
	})
	return b
}

// expects says whether the server is gone, or refuses, by intent.
func (b *tab) expects(lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = lost
}

func (b *tab) complain(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.lost || !strings.Contains(what, "net::ERR_") && !strings.Contains(what, "403 (Forbidden)") {
		b.odd = append(b.odd, what)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// run has the page run a script.
func (b *tab) run(script string) {
	b.Helper()
	b.is("(() => { " + script + " })()")
}

// is returns what an expression of the page comes to, as text.
func (b *tab) is(expression string) string {
	b.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return text
}

// until waits for what an expression says of the page. It asks from here, as the policy of
// the page would not let it wait by itself.
func (b *tab) until(expression string) {
	b.Helper()
	for end := time.Now().Add(patience); b.is("Boolean("+expression+")") != "true"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not %s on the page\n%s", expression, b.is("document.body.innerText"))
		}
	}
}

// choose sets a field as somebody would.
func (b *tab) choose(id, value, event string) {
	b.Helper()
	b.run(fmt.Sprintf("const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event(%q))", id, value, event))
}

// click clicks on what a selector finds, of several on the one with that text.
func (b *tab) click(selector, text string) {
	b.Helper()
	b.shows(selector, text)
	b.run(fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.innerText.includes(%q)).click()", selector, text))
}

// shows waits for a text below what a selector finds.
func (b *tab) shows(selector, text string) {
	b.Helper()
	given, _ := json.Marshal([]string{selector, text})
	b.until(fmt.Sprintf("((q) => [...document.querySelectorAll(q[0])].some((e) => e.innerText.includes(q[1])))(%s)", given))
}

func (b *tab) open(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
	b.until(`document.querySelector("#rows, #main .note, #main .picture") !== null`)
}

// keys presses keys one after the other. Of letters the page may keep the browser from
// writing them, which chromedp.KeyEvent leaves no way for.
func (b *tab) keys(keys ...string) {
	b.Helper()
	for _, k := range keys {
		if len(k) > 1 || k < " " {
			b.do(chromedp.KeyEvent(k))
			continue
		}
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: k, Text: k})
			if err == nil {
				_, err = chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: k})
			}
			return err
		}))
	}
}

func (b *tab) resize(width int, dark bool) {
	b.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(int64(width), 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// picture is one of the tab; they stay with `go test -artifacts`.
func (b *tab) picture(name string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Log(err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		b.Error(err)
	}
}

// What there is to see of a repository: the list, the graph, the timeline, and one job
// whose output comes as it is written.
func TestBrowserShowsARepository(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.shows("#link", "live")
	b.shows("#needs", "vizier jobs approve 1/deploy")
	b.shows("#main h2", "Jobs (5 jobs)")
	b.shows("#rows", "lint <b>")
	b.click("#views button", "Graph")
	b.until(`[...document.querySelectorAll("#main .picture svg text")].some((e) => e.textContent.includes("deploy"))`)
	b.click("#views button", "Timeline")
	b.until(`[...document.querySelectorAll("#main .picture svg text")].some((e) => e.textContent.includes("build"))`)
	b.click("#views button", "List")
	b.click("#rows a", "lint <b>")
	b.shows("#job h2", "failed")
	b.shows(`#job pre[data-stream=stderr]`, "grün")
	b.shows("#job", "exit 3")
	b.shows("#job", "vizier retry 1/lint")

	proceed := filepath.Join(f.dir, "go")
	f.vizier("", "submit", "--name", "talk", "--", "sh", "-c", "echo one; until test -e "+proceed+"; do sleep 0.05; done; echo two")
	b.click("#rows a", "talk") // which waits until it is there
	b.shows(`#job pre[data-stream=stdout]`, "one")
	b.shows("#job h2", "running")
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.shows(`#job pre[data-stream=stdout]`, "one\ntwo")
	b.shows("#job h2", "succeeded")
}

// What somebody types, has pressed once, points at or has selected stays when the job, those near it
// and the list change.
func TestBrowserTakesNothingAway(t *testing.T) {
	f := newBrowserField(t)
	f.vizier("", "submit", "--name", "gate", "--approval", "--", "true")
	f.vizier("", "submit", "--name", "other", "--after", "1", "--", "true")
	s, origin, offer := f.acting(files(t))
	b := newTab(t)
	b.open(origin + s.prefix + offer)
	b.shows("#link", "live")
	b.run(`const set = setTimeout; globalThis.setTimeout = (f, ms) => ms === 5000 ? 0 : set(f, ms)`) // what is pressed once stays so
	b.click("#rows a", "gate")
	b.shows("#job", "2 other")
	b.shows("#job .act", "reject")
	b.do(chromedp.Focus("#job .acts input"))
	b.keys("n", "o", "t")
	b.click("#job .act", "approve")
	b.run(`const r = document.createRange(); r.setStart(document.querySelector("#rows a").firstChild, 1); r.setEnd(document.querySelector("#job dd").firstChild, 2);
		getSelection().removeAllRanges(); getSelection().addRange(r); globalThis.selected = [r.startContainer, r.startOffset, r.endContainer, r.endOffset];
		globalThis.others = [...document.querySelectorAll("#needs .copy, #views button, #job .copy, #job .follows table, #status option")]`)
	const keeps = `JSON.stringify([document.querySelector("#job .acts input")?.value, document.activeElement.ariaLabel, [...document.querySelectorAll("#job .act")].map((e) => e.textContent),
		selected.map((x, i) => x === ((r) => [r.startContainer, r.startOffset, r.endContainer, r.endOffset])(getSelection().getRangeAt(0))[i]), others.every((e) => e.isConnected)])`
	const want = `["not","reason",["approve: sure?","reject","cancel"],[true,true,true,true],true]`
	if got := b.is(keeps); got != want {
		t.Fatalf("before anything changes\n%s\nwant\n%s", got, want)
	}
	f.vizier("", "submit", "--name", "late", "--after", "1", "--", "true")
	b.shows("#rows", "late")
	b.shows("#job", "3 late")
	if got := b.is(keeps); got != want {
		t.Errorf("after a change near the job\n%s\nwant\n%s", got, want)
	}
	b.keys(" ", "y", "e", "t")
	b.click("#job .act", "reject")
	b.click("#job .act", "sure?")
	b.shows("#job", "not yet")
	b.shows("#job .acts [role=status]", "reject: done")
	b.shows("#job .follows", "Point at")
}

// A log goes on at its end, and stands still for who reads further up; what is left out is
// said. One that becomes shorter is shown as it is.
func TestBrowserReadsALog(t *testing.T) {
	f := newBrowserField(t)
	proceed := filepath.Join(f.dir, "go")
	f.vizier("", "submit", "--name", "talk", "--", "sh", "-c", "seq 1 200; until test -e "+proceed+"; do sleep 0.05; done; echo last; printf '\\303'")
	for !strings.Contains(f.vizier("", "tail", "talk"), "200") {
		time.Sleep(20 * time.Millisecond)
	}
	file := filepath.Join(f.dir, ".vizier", "jobs", f.id("talk"), "stdout.log")
	prints := func(text string) {
		t.Helper()
		to, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if _, err := to.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix + "#job=" + f.id("talk"))
	const log, end = `document.querySelector("#job pre[data-stream=stdout]")`, `((p) => p.scrollTop + p.clientHeight >= p.scrollHeight - 4)(document.querySelector("#job pre[data-stream=stdout]"))`
	b.until(log + `?.textContent.endsWith("\n200\n") && ` + end)
	prints("201\n")
	b.until(log + `.textContent.endsWith("\n201\n") && ` + end)

	b.run(`const p = ` + log + `; p.scrollTop = 100; getSelection().setBaseAndExtent(p.firstChild, 2, p.firstChild, 7)`)
	f.vizier("", "submit", "--name", "late", "--after", "1", "--", "true")
	b.shows("#job", "2 late")
	prints("202\n")
	b.until(log + `.textContent.endsWith("\n202\n")`)
	const reads = `[` + log + `.scrollTop, getSelection().toString()].join()`
	if got := b.is(reads); got != "100,2\n3\n4" {
		t.Errorf("who reads further up is at %q", got)
	}
	prints(strings.Repeat("more\n", mostLog/4) + "then\n")
	b.shows("#job h3", "stdout (stands still")
	if got := b.is(reads + ` + ` + log + `.textContent.slice(-5)`); got != "100,2\n3\n4\n202\n" {
		t.Errorf("who reads further up is at %q", got)
	}
	b.run(`const p = ` + log + `; p.scrollTop = p.scrollHeight`)
	b.shows("#job h3", "stdout (the end of it)")
	b.until(log + `.textContent.endsWith("\nthen\n") && ` + end)

	if err := os.Truncate(file, 4); err != nil {
		t.Fatal(err)
	}
	prints("\xff\xc3") // which ends within a letter, as the whole log does
	b.until(log + `.textContent === "1\n2\n\ufffd"`)
	b.until(`document.querySelector("#files h3").textContent === "stdout"`)
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.until(log + `.textContent === "1\n2\n\ufffd\ufffdlast\n\ufffd"`)
	b.shows("#job h2", "succeeded")
}

// After a retry there is the output of the new attempt and nothing of the one before,
// whether it is longer, as long or empty.
func TestBrowserShowsTheNewAttempt(t *testing.T) {
	f := newBrowserField(t)
	f.vizier("", "submit", "--name", "again", "--", "sh", "-c", `case $VIZIER_ATTEMPT in
		1|3) echo A$VIZIER_ATTEMPT-1; echo A$VIZIER_ATTEMPT-2 ;; 2) for i in 1 2 3 4; do echo A2-$i; done ;; esac; exit 1`)
	f.vizier("", "wait", "again")
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.click("#rows a", "again")
	for attempt, want := range []string{"A1-1\nA1-2\n", "A2-1\nA2-2\nA2-3\nA2-4\n", "A3-1\nA3-2\n", ""} {
		if attempt > 0 {
			f.vizier("", "retry", "again")
			f.vizier("", "wait", "again")
		}
		b.until(fmt.Sprintf(`document.getElementById("files").innerText.includes("%d: failed") && (document.querySelector("#job pre[data-stream=stdout]")?.textContent ?? "") === %q`, attempt+1, want))
	}
}

// A name that would turn the page round stands there as ls prints it, emoji as they are
// written; what a job printed turns nothing else round.
func TestBrowserShowsWhatIsNotSeen(t *testing.T) {
	f := newBrowserField(t)
	f.vizier("", "submit", "--name", "a\u202eb", "--", "printf", `\u202eabc\nxyz\n`)
	f.vizier("", "submit", "--name", "👩\u200d👧", "--", "true")
	f.vizier("", "wait", "1", "2")
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.shows("#rows", `a\u202eb`)
	b.shows("#rows", "👩\u200d👧")
	b.click("#rows a", `a\u202eb`)
	b.shows("#job h2", `a\u202eb`)
	b.shows("#job pre", "xyz")
	if got := b.is(`getComputedStyle(document.querySelector("#job pre")).unicodeBidi`); got != "plaintext" {
		t.Errorf("output is %s", got)
	}
	b.click("#views button", "Timeline")
	b.until("[...document.querySelectorAll(\"#main .picture svg text\")].some((e) => e.textContent.includes(String.raw`a\\u202eb`))")
	if got := b.is("/[\\u202a-\\u202e\\u2066-\\u2069]/.test([document.title, ...[...document.querySelectorAll('body *:not(pre):not(script)')].map((e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join(''))].join(''))"); got != "false" {
		t.Error("the page has characters that turn text round")
	}
}

// A running job says in the list how far it is, as in ls, and goes on to say so.
func TestBrowserShowsProgress(t *testing.T) {
	f := newBrowserField(t)
	further, proceed := filepath.Join(f.dir, "further"), filepath.Join(f.dir, "go")
	f.vizier("", "submit", "--name", "steps", "--", "sh", "-c", `echo '{"done":1,"total":4,"text":"step"}' >>$VIZIER_REPORT; echo said; until test -e `+further+`; do sleep 0.05; done
		echo '{"done":2,"total":4}' >>$VIZIER_REPORT; until test -e `+proceed+`; do sleep 0.05; done`)
	for !strings.Contains(f.vizier("", "tail", "steps"), "said") {
		time.Sleep(20 * time.Millisecond)
	}
	if listed := f.vizier("", "ls"); !strings.Contains(listed, "1 of 4 (25%): step") {
		t.Fatalf("ls: %s", listed)
	}
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.shows("#rows .what", "1 of 4 (25%): step")
	if err := os.WriteFile(further, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.shows("#rows .what", "2 of 4 (50%)")
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.shows("#rows", "succeeded")
	if got := b.is(`document.querySelector("#rows .what").textContent`); got != "" {
		t.Errorf("at its end it says %s", got)
	}
}

// Search and filters are in the address, and are there again after a reload.
func TestBrowserKeepsFilters(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.choose("q", "tell", "input")
	b.choose("status", "approval", "change")
	b.shows("#main h2", "0 of 5 jobs")
	b.choose("status", "waiting", "change")
	b.shows("#main h2", "1 of 5 jobs")
	b.click("#rows a", "tell")
	b.shows("#job h2", "1/tell")
	const looks = `[location.hash, document.getElementById("rows").innerText.replace(/\d+s ago/, ""), document.querySelector("#job h2").innerText].join("\n")`
	want := b.is(looks)
	b.do(chromedp.Reload())
	b.shows("#main h2", "1 of 5 jobs")
	b.shows("#job h2", "1/tell")
	if got := b.is(looks); got != want {
		t.Errorf("after a reload\n%s\nbefore\n%s", got, want)
	}
	if q, st := b.is(`document.getElementById("q").value`), b.is(`document.getElementById("status").value`); q != "tell" || st != "waiting" {
		t.Errorf("search %q, status %q", q, st)
	}
	b.run(`location.hash = "#status=cancelled&view=none"`)
	b.shows("#main h2", "0 of 5 jobs")
	b.until(`document.getElementById("status").value === "cancelled"`) // though no job is
}

// Everything is reached without a mouse.
func TestBrowserByKeyboard(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.keys("j", "j")
	second := b.is(`document.querySelectorAll("#rows a")[1].dataset.job`)
	if got := b.is("document.activeElement.dataset.job"); got != second {
		t.Fatalf("after j j, the focus is on %s, want %s", got, second)
	}
	b.keys(kb.Enter)
	b.until(`!document.getElementById("job").hidden && document.getElementById("job").contains(document.activeElement)`)
	b.keys(kb.Escape)
	b.until(`document.getElementById("job").hidden && document.activeElement.dataset.job === "` + second + `"`)
	b.keys("/", "d", "e", "p", "l")
	b.shows("#main h2", "1 of 5 jobs")
	b.keys(kb.Enter)
	b.until(`document.activeElement.textContent === "deploy"`)
	b.keys(kb.Enter)
	b.shows("#job h2", "1/deploy")
	b.keys(kb.Tab, kb.Tab) // past the button that closes
	b.shows("#job .follows", "vizier what-if --approve 1/deploy")
	b.keys(kb.Escape, "g")
	b.until(`document.querySelector("#main .picture") !== null`)
	b.keys("t")
	b.shows("#main h2", "Timeline")
	b.keys("l")
	b.shows("#rows", "deploy")
}

// A look at "approve" shows what the command line says would follow.
func TestBrowserForesees(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	want := strings.Fields(f.vizier("", "what-if", "--approve", "1/deploy"))
	if len(want) != 9 {
		t.Fatal(want)
	}
	b.open(web.URL + s.prefix)
	said := func(area string) {
		t.Helper()
		b.until(`document.querySelector("` + area + ` table") !== null`)
		if got := strings.Fields(b.is(`document.querySelector("` + area + ` table").innerText`)); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the page says\n%s\nthe command line\n%s", got, want)
		}
	}
	b.do(chromedp.Focus("#needs button[data-what=approve]"))
	said("#needs .follows")
	b.click("#rows a", "deploy")
	b.shows("#job button", "approve")
	b.over("#job button[data-what=approve]")
	said("#job .follows")
}

// over moves the mouse to what a selector finds.
func (b *tab) over(selector string) {
	b.Helper()
	var at [2]float64
	if err := json.Unmarshal([]byte(b.is(fmt.Sprintf("((e) => { e.scrollIntoView(); const r = e.getBoundingClientRect(); return JSON.stringify([r.x + r.width / 2, r.y + r.height / 2]); })(document.querySelector(%q))", selector))), &at); err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
}

// When the server is gone the page says so; once it is back the page catches up.
func TestBrowserCatchesUp(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.shows("#link", "live")
	b.expects(true)
	address := web.Listener.Addr().String()
	web.CloseClientConnections()
	web.Listener.Close()
	b.shows("#link.lost", "Connection lost")
	f.vizier("", "jobs", "approve", "1/deploy")
	f.vizier("", "wait", "1")
	b.shows("#needs", "approve 1/deploy") // how it stood
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	again.Start()
	t.Cleanup(func() { b.expects(true); end(again) })
	b.shows("#link:not(.lost)", "live")
	b.expects(false)
	b.until(`document.getElementById("needs").innerText.includes("approve") === false`)
	b.until(`[...document.querySelectorAll("#rows tr")].some((r) => r.innerText.includes("deploy") && r.innerText.includes("succeeded"))`)
}

// The tabs of one browser, which has six connections to a server, show what happens with one
// stream of events, also when the tab that had it is closed; a tab that gets no answer says so, and asks again, with
// more patience.
func TestBrowserWithTabs(t *testing.T) {
	f := newBrowserField(t)
	f.vizier("", "submit", "--name", "early", "--", "true")
	s, _ := f.server(files(t))
	var mu sync.Mutex
	streams, most, stuck, slow := 0, 0, false, false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		state := strings.HasSuffix(q.URL.Path, "/state")
		isStuck, isSlow := stuck && state, slow && state
		if stream := strings.HasSuffix(q.URL.Path, "/events"); stream {
			streams++
			most = max(most, streams)
			defer func() { mu.Lock(); streams--; mu.Unlock() }()
		}
		mu.Unlock()
		if isStuck {
			<-q.Context().Done()
			return
		}
		if !isSlow {
			s.ServeHTTP(w, q)
			return
		}
		got := httptest.NewRecorder()
		s.ServeHTTP(got, q)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code) // the head comes at once
		w.(http.Flusher).Flush()
		select {
		case <-q.Context().Done():
		case <-time.After(time.Second):
			_, _ = w.Write(got.Body.Bytes())
		}
	}))
	t.Cleanup(func() { end(web) })
	first := newTab(t)
	tabs := []*tab{first, first.another(), first.another()}
	for _, b := range tabs {
		b.open(web.URL + s.prefix)
		b.shows("#link", "live")
	}
	f.vizier("", "submit", "--name", "late", "--", "true")
	for _, b := range tabs {
		b.shows("#rows", "late")
	}
	mu.Lock()
	if most != 1 {
		t.Errorf("there were %d streams", most)
	}
	mu.Unlock()
	first.do(chromedp.Navigate("about:blank"))
	f.vizier("", "submit", "--name", "later", "--", "true")
	for _, b := range tabs[1:] {
		b.shows("#rows", "later")
	}

	b := tabs[2]
	b.expects(true)
	b.run(`globalThis.after = AbortSignal.timeout; AbortSignal.timeout = (ms) => after.call(AbortSignal, ms / 100)`)
	set := func(is, to *bool) { mu.Lock(); defer mu.Unlock(); *is, *to = false, true }
	none := false
	set(&none, &stuck)
	f.vizier("", "submit", "--name", "unseen", "--", "true")
	b.shows("#link.lost", "Not up to date: the server does not answer")
	set(&stuck, &slow) // slower than the page had patience for at first
	b.shows("#rows", "unseen")
	b.shows("#link:not(.lost)", "live")
	set(&slow, &none)
}

// It can be read at the widths of a phone, a tablet and a desk, in both schemes: nothing
// is beside the page, and a job that is open can be closed.
func TestBrowserAtWidths(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, web := f.server(files(t))
	b := newTab(t)
	b.open(web.URL + s.prefix)
	b.shows("#link", "live")
	for _, dark := range []bool{false, true} {
		for _, width := range []int{360, 900, 1600} {
			b.resize(width, dark)
			for _, c := range [][2]string{{"list", "#"}, {"graph", "#view=graph"}, {"timeline", "#view=timeline"}, {"job", "#job=" + f.id("1/lint")}} {
				view := c[0]
				b.run(fmt.Sprintf("location.hash = %q", c[1]))
				b.shows("#main h2", map[string]string{"list": "Jobs", "graph": "Graph", "timeline": "Timeline", "job": "Jobs"}[view])
				b.until(fmt.Sprintf(`document.getElementById("job").hidden !== %v`, view == "job"))
				name := fmt.Sprintf("%s-%d-%v", view, width, map[bool]string{true: "dark", false: "light"}[dark])
				if got := b.is("document.documentElement.scrollWidth"); got != fmt.Sprint(width) {
					t.Errorf("%s: the page is %s wide", name, got)
				}
				if view == "job" {
					b.shows("#job pre", "grün")
					b.until(`((r) => document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2).className === "close")(document.querySelector("#job .close").getBoundingClientRect())`)
				}
				paper := b.is(`getComputedStyle(document.body).backgroundColor`)
				if (paper == "rgb(255, 255, 255)") == dark {
					t.Errorf("%s: on %s", name, paper)
				}
				b.picture(name)
			}
		}
	}
}

// The page as a file opens from the disk, and says what the kernel in it says.
func TestBrowserOpensTheFile(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, _ := f.server(nil)
	text, err := standalone(t.Context(), s.r, files(t), "1/lint")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.dir, "page.html")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newTab(t)
	b.open("file://" + file)
	b.shows("#link", "the state of")
	b.shows("#needs", "vizier jobs approve 1/deploy")
	b.shows("#rows", "lint <b>")
	b.shows("#job", "exit code 3")
	b.shows("#job", "vizier tail 1/lint")
	b.keys("g")
	b.until(`document.querySelector("#main .picture svg") !== null`)
}

// batch returns n jobs of which each tenth waits for an approval, and the
// others for it.
func batch(n int) string {
	var lines strings.Builder
	for i := range n {
		line := map[string]any{"ref": fmt.Sprint("j", i), "name": fmt.Sprint("job ", i), "command": []string{"true"}}
		if i%10 == 0 {
			line["approval"] = true
		} else {
			line["after"] = []string{fmt.Sprint("j", i-i%10)}
		}
		text, _ := json.Marshal(line)
		lines.Write(append(text, '\n'))
	}
	return lines.String()
}

// painted is when the page first showed the list, in milliseconds after it was asked for.
const painted = `Math.round(performance.getEntriesByName("list")[0]?.startTime ?? -1)`

// A thousand jobs and ten thousand are listed, found and drawn where that can be read;
// ten changes a second leave the page usable, what it is sent grows with what changed,
// and it shows how all stands in the end.
func TestBrowserWithManyJobs(t *testing.T) {
	for _, n := range []int{1000, 10000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := newBrowserField(t)
			f.vizier(batch(n), "submit", "--batch")
			s, _ := f.server(files(t))
			var mu sync.Mutex
			sent := map[string]int{} // by the version that the page had: how many jobs it was sent then
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if !strings.HasSuffix(q.URL.Path, "/state") {
					s.ServeHTTP(w, q)
					return
				}
				got := httptest.NewRecorder()
				s.ServeHTTP(got, q)
				if q.Context().Err() != nil { // on a busy machine: the page asks again
					return
				}
				var state struct {
					Snapshot json.RawMessage
					Change   *struct{ Jobs []json.RawMessage }
				}
				err := json.Unmarshal(got.Body.Bytes(), &state)
				switch since := q.URL.Query().Get("since"); {
				case err != nil || state.Snapshot == nil && state.Change == nil:
					t.Errorf("the state: %v", err)
				case state.Change != nil:
					mu.Lock()
					sent[since] = len(state.Change.Jobs) // of two answers it has not waited for the first
					mu.Unlock()
				case since != "" && since != "0": // with neither it has nothing yet
					t.Errorf("the page had version %s, and was sent all jobs", since)
				}
				w.Header().Set("Content-Type", got.Header().Get("Content-Type"))
				_, _ = w.Write(got.Body.Bytes())
			}))
			t.Cleanup(func() { end(web) })
			b := newTab(t)
			b.open(web.URL + s.prefix)
			b.shows("#main h2", "Jobs ("+view.Counted(n, "job")+")")
			t.Logf("%d jobs: the list is there after %s ms", n, b.is(painted))
			b.shows("#link", "live")
			b.picture(fmt.Sprint("list-", n))
			b.keys("/", "7", "7", "7")
			b.until(`[...document.querySelectorAll("#rows a")].some((a) => a.textContent === "job 777")`)
			b.keys(kb.Escape)

			b.run(`globalThis.longest = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) longest = Math.max(longest, e.duration); }).observe({ type: "longtask" })`)
			const changes = 20
			for i := range changes {
				began := time.Now()
				if _, err := s.r.Scheduler.Reject(t.Context(), kernel.JobID(f.id(fmt.Sprintf("1/j%d", i*10))), kernel.Refusal{By: "ann"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(began.Add(100 * time.Millisecond)))
			}
			b.until(fmt.Sprintf(`document.title.startsWith("(%d)")`, n/10-changes))
			b.choose("q", fmt.Sprintf("job %d", (changes-1)*10), "input")
			b.until(fmt.Sprintf(`[...document.querySelectorAll("#rows tr")].some((r) => r.innerText.includes("job %d\t") && r.innerText.includes("blocked"))`, (changes-1)*10))
			t.Logf("%d jobs, ten changes a second: the page was busy for %s ms at the most", n, b.is("Math.round(longest)"))
			mu.Lock()
			defer mu.Unlock()
			all := 0
			for _, jobs := range sent {
				all += jobs
			}
			if changed := changes * 10; all == 0 || all > 2*changed { // what changes while it is read is told twice
				t.Errorf("%d records were sent for %d that changed", all, changed)
			}
		})
	}
}
