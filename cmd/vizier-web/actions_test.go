package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// askingRole has this test binary ask a server for something, as a program of a job's.
const askingRole = "ask-as-a-job"

// asks is that program: it posts a document with a key to each address, and prints what comes back.
func asks(args []string) {
	origin, key, doc := args[0], args[1], args[2]
	for _, address := range args[3:] {
		code, text, err := post(context.Background(), address, doc, "Origin", origin, "Content-Type", "application/json", keyHeader, key)
		fmt.Println(code, strings.TrimSpace(text), err)
	}
	fmt.Println("asked")
}

func post(ctx context.Context, address, doc string, header ...string) (int, string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(doc))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
		}
		q.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return got.StatusCode, string(text), err
}

// acting returns a server that takes actions, with the end of its address.
func (f field) acting(a assets) (s *server, origin, offer string) {
	f.Helper()
	if runtime.GOOS != "linux" {
		f.Skip("actions are for Linux")
	}
	s, web := f.server(a)
	s.allow(func(context.Context) string { return "ann" })
	return s, web.URL, s.actions.offer()
}

// digestOf returns what an approval of a job would be of.
func (f field) digestOf(s *server, id string) kernel.Digest {
	f.Helper()
	snap, _, err := s.r.Scheduler.Job(f.Context(), id)
	if err != nil {
		f.Fatal(err)
	}
	return snap.Job(kernel.JobID(id)).Spec.Digest()
}

// Only a page of this server with a key may decide, and what it does is what the commands do.
func TestWhoMayAct(t *testing.T) {
	f := newField(t)
	f.flow()
	s, origin, offer := f.acting(nil)
	base, deploy, once := origin+s.prefix, f.id("1/deploy"), strings.TrimPrefix(offer, "#key=")
	page := []string{"Origin", origin, "Content-Type", "application/json"}
	ask := func(what, doc string, code int, says string, header ...string) string {
		t.Helper()
		got, text, err := post(t.Context(), base+what, doc, header...)
		if err != nil || got != code || !strings.Contains(text, says) {
			t.Errorf("%s %s %v: %d %s %v, want %d and %q", what, doc, header, got, text, err, code, says)
		}
		return text
	}
	with := func(key string, more ...string) []string {
		return append(append([]string{keyHeader, key}, page...), more...)
	}
	ask("claim", "", 403, "key", page...)
	ask("claim", "", 403, "key", with("wrong")...)
	ask("claim", "", 403, "key", with("")...)
	ask("claim", "", 403, "page itself", keyHeader, once)
	ask("claim", "", 403, "origin", keyHeader, once, "Content-Type", "application/json", "Origin", "http://evil.example")
	ask("claim", "", 403, "host", with(once, "Host", "evil.example")...)
	var got struct{ Key string }
	if text := ask("claim", "", 200, "key", with(once)...); json.Unmarshal([]byte(text), &got) != nil || got.Key == "" || got.Key == once {
		t.Fatalf("the key: %s", text)
	}
	ask("claim", "", 403, "is not valid", with(once)...)

	wish := func(what, job string, more ...string) string {
		doc := map[string]string{"what": what, "job": job}
		for i := 0; i < len(more); i += 2 {
			doc[more[i]] = more[i+1]
		}
		return printed(doc)
	}
	approve := wish("approve", deploy, "digest", string(f.digestOf(s, deploy)))
	key := got.Key
	ask("act", approve, 403, "key", page...)
	ask("act", approve, 403, "key", with(once)...)
	ask("act", approve, 403, "key", with(key[:len(key)-1])...)
	ask("act", approve, 403, "page itself", keyHeader, key, "Origin", origin, "Content-Type", "text/plain")
	ask("act", approve, 403, "page itself", keyHeader, key, "Content-Type", "application/json")
	ask("act", approve, 403, "origin", keyHeader, key, "Content-Type", "application/json", "Origin", "null")
	ask("act", approve, 403, "host", with(key, "Host", "rebound.example:80")...)
	ask("act", approve, 403, "site", with(key, "Sec-Fetch-Site", "cross-site")...)
	ask("../act", approve, 404, "", with(key)...)
	ask("act", wish("approve", deploy), 400, "digest", with(key)...)
	ask("act", wish("approve", deploy, "digest", strings.Repeat("0", 64)), 409, "", with(key)...)
	ask("act", wish("approve", deploy, "digest", string(f.digestOf(s, deploy)), "head", "c"), 400, "covers no commit", with(key)...)
	ask("act", wish("approve", "../../"+deploy), 404, "", with(key)...)
	ask("act", wish("approve", strings.Repeat("0", len(deploy)), "digest", "x"), 404, "", with(key)...)
	ask("act", wish("delete", deploy), 400, "no action", with(key)...)
	ask("act", `{"what":"approve","odd":1}`, 400, "odd", with(key)...)
	ask("act", approve+approve, 400, "more than one", with(key)...)
	ask("act", `"`+strings.Repeat("x", most)+`"`, 400, "too large", with(key)...)
	if code, _ := f.get(base + "act"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET act: %d", code)
	}
	if now := f.vizier("", "jobs", "status", "1/deploy"); !strings.Contains(now, "waiting_on_approval") {
		t.Fatalf("something was decided: %s", now)
	}

	ask("act", approve, 200, `"status"`, with(key)...)
	f.vizier("", "wait", "1/deploy")
	if text := f.vizier("", "show", "1/deploy", "--raw", "--json"); !strings.Contains(text, `"page"`) || !strings.Contains(text, `"ann"`) {
		t.Errorf("it is not on record how that was approved: %s", text)
	}
	ask("act", approve, 409, "job 1/deploy ", with(key)...)
	f.vizier("", "submit", "--name", "no", "--approval", "--", "true")
	ask("act", wish("reject", f.id("no"), "reason", "not today"), 200, "blocked", with(key)...)
	if text := f.vizier("", "show", "no"); !strings.Contains(text, "not today") || !regexp.MustCompile(`Approval decided how: +page\n`).MatchString(text) {
		t.Errorf("the reason, or how it was rejected, is not on record: %s", text)
	}
	f.vizier("", "submit", "--name", "never", "--approval", "--", "true")
	ask("act", wish("cancel", f.id("never")), 200, "cancelled", with(key)...)
	if text := f.vizier("", "show", "never"); !strings.Contains(text, "cancelled by ann on the page") {
		t.Errorf("how it was cancelled is not on record: %s", text)
	}
	ask("act", wish("retry", f.id("1/lint")), 200, "", with(key)...)
	f.vizier("", "wait", "1/lint")
	if text := f.vizier("", "show", "1/lint", "--raw", "--json"); !strings.Contains(text, `"generation": 1`) {
		t.Errorf("it was not retried: %s", text)
	}
	f.vizier("", "submit", "--name", "long", "--", "sleep", "600")
	f.configure("[jobs.cancel]\ncleanup_worktree = true\n") // the server follows it
	ask("act", wish("cancel", f.id("long")), 200, "", with(key)...)
	if text := f.vizier("", "wait", "long"); !strings.Contains(text, "cancelled") {
		t.Errorf("it was not cancelled: %s", text)
	}
	if text := f.vizier("", "show", "long", "--raw", "--json"); !strings.Contains(text, `"cleanup_worktree": true`) {
		t.Errorf("the page does not do what the configuration says now: %s", text)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, base+"act", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := http.DefaultClient.Do(q); err != nil || got.Body.Close() != nil || got.StatusCode < 400 || got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("others are let in: %+v %v", got, err)
	}
}

// A job that came to know all that there is to know is refused, by what it is.
func TestAJobMayNotAct(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := newField(t)
	f.flow()
	s, origin, offer := f.acting(nil)
	s.actions.granted = []string{"granted"}
	deploy := f.id("1/deploy")
	doc := printed(map[string]any{"what": "approve", "job": deploy, "digest": f.digestOf(s, deploy)})
	said := filepath.Join(f.dir, "said")
	for name, command := range map[string][]string{
		"child": {own, askingRole, origin, "granted", doc, origin + s.prefix + "act"},
		"claim": {own, askingRole, origin, strings.TrimPrefix(offer, "#key="), doc, origin + s.prefix + "claim"},
		"clean": {"env", "-i", "setsid", "--wait", own, askingRole, origin, "granted", doc, origin + s.prefix + "act"},
		"orphan": {"sh", "-c", `setsid -f "$@" >"$0.part" && until grep -qs asked "$0.part"; do sleep 0.05; done; cat "$0.part"`, said,
			own, askingRole, origin, "granted", doc, origin + s.prefix + "act"},
		"key alone": {own, askingRole, origin, "", doc, origin + s.prefix + "act", origin + "/act"},
	} {
		t.Run(name, func(t *testing.T) {
			f := field{t, f.dir}
			ref := strings.TrimSpace(f.vizier("", append([]string{"submit", "--"}, command...)...))
			f.vizier("", "wait", ref)
			text := f.vizier("", "tail", ref)
			if !strings.Contains(text, "asked") || !strings.Contains(text, "403 ") || strings.Contains(text, "200 ") {
				t.Errorf("the job was told %s", text)
			}
			if name != "key alone" && !strings.Contains(text, "inside") {
				t.Errorf("it was refused for another reason: %s", text)
			}
		})
	}
	if now := f.vizier("", "jobs", "status", "1/deploy"); !strings.Contains(now, "waiting_on_approval") {
		t.Fatalf("a job has decided: %s", now)
	}
	if code, text, err := post(t.Context(), origin+s.prefix+"act", doc, "Origin", origin, "Content-Type", "application/json", keyHeader, "granted"); err != nil || code != http.StatusOK {
		t.Errorf("and a person may not: %d %s %v", code, text, err)
	}
}

// The key goes to a terminal alone, and to nobody's file.
func TestActionsNeedATerminal(t *testing.T) {
	f := newField(t)
	s, _, _ := f.acting(nil)
	if err := mayAct(t.Context(), s.r, os.Stdin, &bytes.Buffer{}, false); err == nil || !strings.Contains(err.Error(), "needs a terminal") || exitCode(err) != 10 {
		t.Errorf("without one: %v", err)
	}
}

// The page decides once it is asked twice; its address has no key that counts again.
func TestBrowserDecides(t *testing.T) {
	f := newBrowserField(t)
	f.flow()
	s, origin, offer := f.acting(files(t))
	b := newTab(t)
	b.open(origin + s.prefix + offer)
	b.shows("#link", "live")
	if at := b.is("location.href"); at != origin+s.prefix {
		t.Errorf("the address is still %s", at)
	}
	b.click("#rows a", "deploy")
	b.shows("#job pre", "command")
	b.click("#job .act", "approve")
	b.shows("#job .act", "sure?")
	b.shows("#job .follows", "what-if --approve")
	if now := f.vizier("", "jobs", "status", "1/deploy"); !strings.Contains(now, "waiting_on_approval") {
		t.Fatalf("it was not asked: %s", now)
	}
	b.click("#job .act", "sure?")
	b.shows("#job h2", "succeeded")
	f.vizier("", "wait", "1/tell")
	b.until(`document.getElementById("needs").hidden`)

	f.vizier("", "submit", "--name", "more", "--approval", "--", "true")
	b.shows("#needs", "approve 2")
	b.do(chromedp.Reload())
	b.click("#rows a", "more")
	b.shows("#job", "This page only reads")
	if acts := b.is(`document.querySelectorAll("#job .act").length`); acts != "0" {
		t.Errorf("it has %s buttons without a key", acts)
	}
	b.expects(true)
	b.do(chromedp.Navigate("about:blank"))
	b.open(origin + s.prefix + offer)
	b.shows("#said", "is not valid")
}
