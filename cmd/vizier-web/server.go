package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/cmd/vizier-metrics/collector"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// server serves one repository. It changes nothing unless actions are enabled.
type server struct {
	r      *vizier.Repository
	assets assets
	prefix string // of all paths: a secret, because other users of this machine can reach the port too
	mux    *http.ServeMux
	book   *book
	turn   chan struct{} // held while using the scheduler, which serves one goroutine at a time

	actions *actions // nil: disabled
}

// open serves the metrics at /metrics, without the secret, for scrapers.
func (s *server) open() { s.handle("GET /metrics", s.inTurn(s.metrics)) }

func newServer(r *vizier.Repository, a assets) *server {
	s := &server{r: r, assets: a, prefix: "/" + rand.Text() + "/", mux: http.NewServeMux(), book: newBook(r), turn: make(chan struct{}, 1)}
	file := func(path, name, kind, coding string) {
		s.handle("GET "+s.prefix+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			if coding != "" {
				w.Header().Set("Content-Encoding", coding)
			}
			_, _ = w.Write(s.assets[name])
		})
	}
	file("{$}", "index.html", "text/html; charset=utf-8", "")
	file("app.js", "app.js", "text/javascript; charset=utf-8", "")
	file("style.css", "style.css", "text/css; charset=utf-8", "")
	file("wasm_exec.js", hostFile, "text/javascript; charset=utf-8", "")
	file("kernel.wasm", kernelFile, "application/wasm", "gzip")
	s.handle("GET "+s.prefix+"state", s.inTurn(s.state))
	s.handle("GET "+s.prefix+"job/{job}", s.inTurn(s.job))
	s.handle("GET "+s.prefix+"log/{job}/{stream}", s.log)
	s.handle("GET "+s.prefix+"events", s.events)
	s.handle("GET "+s.prefix+"metrics", s.inTurn(s.metrics))
	return s
}

// handle serves requests that match pattern while the repository is in its place.
// After a move, the open store may be out of date.
func (s *server) handle(pattern string, do http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
		if err := s.r.Store.InPlace(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		do(w, q)
	})
}

// inTurn returns a handler in which do has exclusive use of the scheduler. The
// request is read before the turn and the answer written after it, so that a
// slow client delays nobody else.
func (s *server) inTurn(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if err := readBody(w, q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		made := made{header: w.Header(), code: http.StatusOK}
		select {
		case s.turn <- struct{}{}:
			func() {
				defer func() { <-s.turn }()
				do(&made, q)
			}()
			w.WriteHeader(made.code)
			_, _ = w.Write(made.body.Bytes())
		case <-q.Context().Done():
		}
	}
}

// readBody reads the body of a request to memory.
func readBody(w http.ResponseWriter, q *http.Request) error {
	if q.Body == nil || q.Body == http.NoBody {
		return nil
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(clientPatience))
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, most))
	_ = conn.SetReadDeadline(time.Time{}) // else it would end the connection later
	q.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

// made is an answer in memory.
type made struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (m *made) Header() http.Header         { return m.header }
func (m *made) WriteHeader(code int)        { m.code = code }
func (m *made) Write(b []byte) (int, error) { return m.body.Write(b) }

// How long a client may take to accept a piece of an answer, or to send the
// body of its request; and how many bytes are a piece.
const (
	clientPatience = 30 * time.Second
	mostAtOnce     = 64 << 10
)

// paced gives every piece that is written a deadline of its own: one for the
// whole answer would end streams of events, and downloads on a slow line.
type paced struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p paced) Write(b []byte) (n int, err error) {
	for {
		p.wait()
		wrote, err := p.ResponseWriter.Write(b[n:min(len(b), n+mostAtOnce)])
		if n += wrote; err != nil || n == len(b) {
			return n, err
		}
	}
}

// wait sets the deadline of the next write.
func (p paced) wait() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(clientPatience))
}

// policy is the content security policy: the page may run its own scripts and
// the kernel, and send requests to its server.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP refuses requests that do not come from this server's page: with
// another host name, as in a DNS rebinding attack, and those that the browser
// marks as coming from elsewhere.
func (s *server) ServeHTTP(to http.ResponseWriter, q *http.Request) {
	w := paced{to}
	w.wait() // an answer without a body needs a deadline too
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if why := elsewhere(q); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, q)
}

// elsewhere returns why a request does not come from a page of this server, or
// "" if it may.
func elsewhere(q *http.Request) string {
	host := q.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if !local(host) {
		return "the host of this page is 127.0.0.1, [::1] or localhost"
	}
	if origin := q.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" || u.Host != q.Host {
			return "another origin may not ask this page's server"
		}
	}
	switch q.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return ""
	}
	if q.Header.Get("Sec-Fetch-Mode") == "navigate" && q.Header.Get("Sec-Fetch-Dest") == "document" { // a link that somebody follows
		return ""
	}
	return "another site may not ask this page's server"
}

// state serves the state for the kernel in the page, or only the changes if the
// page states which version it has.
func (s *server) state(w http.ResponseWriter, q *http.Request) {
	have, _ := strconv.ParseUint(q.URL.Query().Get("since"), 10, 64) // 0, everything, if it is missing or invalid
	state, err := s.book.State(q.Context(), have)
	state.Actions = s.actions != nil
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(page.Text(state))
}

// metrics serves the current metrics, as `vizier metrics` prints them.
func (s *server) metrics(w http.ResponseWriter, q *http.Request) {
	found, err := collector.Of(q.Context(), s.r)
	if err != nil {
		refuse(w, err)
		return
	}
	promhttp.HandlerFor(found, promhttp.HandlerOpts{}).ServeHTTP(w, q)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	http.Error(w, answer.Visible(kernel.Said(err), "\n\t"), status(err))
}

// status returns the HTTP status of an error.
func status(err error) int {
	switch {
	case errors.Is(err, kernel.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, kernel.ErrMoved):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// about returns the job in the request's path.
func about(q *http.Request) (kernel.JobID, error) {
	id := q.PathValue("job")
	if !kernel.ValidJobID(id) {
		return "", fmt.Errorf("job %q: %w", id, kernel.ErrNotFound)
	}
	return kernel.JobID(id), nil
}

// details is what the store has of a job besides its record.
type details struct {
	Attempts []view.Attempt  `json:"attempts"`
	Effects  []answer.Effect `json:"effects"`
}

func (s *server) job(w http.ResponseWriter, q *http.Request) {
	doc, err := s.details(q)
	if err != nil {
		refuse(w, err)
		return
	}
	text, err := answer.Shown(doc)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

func (s *server) details(q *http.Request) (details, error) {
	var doc details
	id, err := about(q)
	if err != nil {
		return doc, err
	}
	snap, err := s.r.Scheduler.Records(q.Context(), app.Only([]kernel.JobID{id}))
	if err != nil {
		return doc, err
	}
	attempts, err := s.r.Store.Attempts(id)
	if err != nil {
		return doc, err
	}
	raw, err := view.ShowRaw(snap, id, view.Paths{Attempts: attempts}, nil)
	if err != nil {
		return doc, err
	}
	j := snap.Job(id)
	journal, err := s.r.Store.Effects(id)
	doc.Attempts, doc.Effects = raw.Job.Attempts, answer.EffectsOf(j, effect.Of(j, journal)).Effects
	return doc, err
}

// mostLog is the maximum part of a log in one answer, in bytes.
const mostLog = 256 << 10

// piece is a part of a log.
type piece struct {
	File string `json:"file"` // names the file: each attempt has one of its own
	From int64  `json:"from"` // in bytes
	Next int64  `json:"next"` // offset of the next part
	Text string `json:"text"`
}

// log serves a job's output from a byte offset of a file on. It serves its end
// without an offset, if that is not the file of the latest attempt, and if there is
// more after the offset than one answer has. With ended nothing is left for a later
// answer.
func (s *server) log(w http.ResponseWriter, q *http.Request) {
	doc, err := s.piece(q)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // ErrNotExist: nothing was printed yet
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc)
}

func (s *server) piece(q *http.Request) (doc piece, err error) {
	id, err := about(q)
	if err != nil {
		return doc, err
	}
	stream := q.PathValue("stream")
	if stream != "stdout" && stream != "stderr" {
		return doc, fmt.Errorf("log %q: %w", stream, kernel.ErrNotFound)
	}
	f, err := s.r.Store.OpenLog(id, stream)
	if err != nil {
		return doc, err
	}
	defer f.Close()
	var at unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &at); err != nil {
		return doc, err
	}
	doc.File = strconv.FormatUint(at.Ino, 10)
	asked := q.URL.Query()
	from, err := strconv.ParseInt(asked.Get("from"), 10, 64)
	on := err == nil && asked.Get("file") == doc.File && from >= max(0, at.Size-mostLog) && from <= at.Size
	if doc.From = from; !on {
		doc.From = max(0, at.Size-mostLog)
	}
	b := make([]byte, mostLog)
	n, err := f.ReadAt(b, doc.From)
	if err != nil && !errors.Is(err, io.EOF) {
		return doc, err
	}
	b = b[:n]
	for cut := 0; !on && doc.From > 0 && cut < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); cut++ { // the rest of a character that is left out
		b, doc.From = b[1:], doc.From+1
	}
	for cut := 0; !asked.Has("ended") && cut < utf8.UTFMax && cut < len(b); cut++ { // an incomplete character is left for the next part
		if tail := b[len(b)-1-cut:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				b = b[:len(b)-1-cut]
			}
			break
		}
	}
	doc.Text, doc.Next = strings.ToValidUTF8(string(b), "\ufffd"), doc.From+int64(len(b))
	return doc, nil
}

// How often the event log is read if the system does not report writes, and how
// often an idle connection sends a sign of life.
const (
	eventPause = time.Second
	beat       = 10 * time.Second
)

// events serves the lines of the event log as they are written. A client that
// reconnects gets what it missed; a new one only gets the last line, since it
// reads the state anyway.
func (s *server) events(w http.ResponseWriter, q *http.Request) {
	have, known := uint64(0), false
	if last := q.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseUint(last, 10, 64)
		have, known = n, err == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if err := s.follow(q.Context(), w, have, known); err != nil && q.Context().Err() == nil {
		os.Stderr.WriteString(answer.Message("read events: " + err.Error()))
	}
}

// follow writes events until ctx ends or the client accepts no more. The error is one of reading them.
func (s *server) follow(ctx context.Context, w http.ResponseWriter, have uint64, known bool) error {
	flush := http.NewResponseController(w).Flush
	log, news := s.r.Store.Events(have), watch.NewFile(s.r.Store.EventsFile())
	if !known {
		log = s.r.Store.NewestEvents()
	}
	defer news.Close()
	defer log.Close()
	said := time.Time{}
	for {
		news.Look()
		var lines []string
		err := log.Read(func(line []byte) error {
			var e struct {
				Seq uint64 `json:"seq"`
			}
			if json.Unmarshal(line, &e) == nil && e.Seq > 0 {
				lines = append(lines, fmt.Sprintf("id: %d\ndata: %s\n\n", e.Seq, line))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(lines) == 0 && time.Since(said) >= beat {
			lines = []string{": here\n\n"}
		}
		if len(lines) > 0 {
			if _, gone := io.WriteString(w, strings.Join(lines, "")); gone != nil || flush() != nil {
				return nil
			}
			said = time.Now()
		}
		again := time.NewTimer(eventPause)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-news.Changed():
		case <-again.C:
		}
		again.Stop()
	}
}
