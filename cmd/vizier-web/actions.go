package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// actions lets pages that have a key make decisions. A printed address contains a
// key that can be used once, so an address in the browser's history is worthless
// afterwards. The page exchanges this key for another one, which it keeps in
// memory only.
type actions struct {
	r   *vizier.Repository
	who func(context.Context) string

	mu      sync.Mutex
	offered []string // keys in printed addresses that were not used yet
	granted []string // keys of pages
}

// allow enables actions.
func (s *server) allow(who func(context.Context) string) {
	s.actions = &actions{r: s.r, who: who}
	s.handle("POST "+s.prefix+"claim", s.inTurn(s.asked(s.actions.claim)))
	s.handle("POST "+s.prefix+"act", s.inTurn(s.asked(s.actions.act)))
}

// offer returns the end of an address with a new key.
func (a *actions) offer() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.offered = append(a.offered, rand.Text())
	return "#key=" + a.offered[len(a.offered)-1]
}

// has reports whether key is one of keys, in constant time.
func has(keys []string, key string) bool {
	found := 0
	for _, k := range keys {
		found |= subtle.ConstantTimeCompare([]byte(k), []byte(key))
	}
	return found == 1
}

// errKey is the error for a request without a valid key.
var errKey = errors.New("the key of this page is not valid: press enter in the terminal of vizier web, and open the address that it prints")

// keyHeader is the header with the key. A page of another origin cannot send it
// without permission.
const keyHeader = "X-Vizier-Key"

// most is the maximum size of a request body, in bytes.
const most = 64 << 10

// asked returns a handler for requests by a page of this server. The context
// that do gets includes the requesting processes.
func (s *server) asked(do func(context.Context, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Origin") == "" || q.Header.Get("Content-Type") != "application/json" { // every request of this server's page has these
			http.Error(w, "only the page itself may ask for this", http.StatusForbidden)
			return
		}
		pids, err := peers(q)
		var doc any
		if err == nil {
			doc, err = do(vizier.For(q.Context(), pids), q)
		}
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc)
			return
		}
		code := status(err)
		var inside *app.InsideError
		switch {
		case errors.As(err, &inside), errors.Is(err, errKey), errors.Is(err, errWho):
			code = http.StatusForbidden
		case errors.Is(err, kernel.ErrConflict):
			code = http.StatusConflict
		case errors.Is(err, kernel.ErrInvalid):
			code = http.StatusBadRequest
		}
		http.Error(w, answer.Visible(s.people(q.Context(), kernel.Said(err)), "\n\t"), code)
	}
}

// people returns text with references in place of the ids of jobs. It must be
// called in turn.
func (s *server) people(ctx context.Context, text string) string {
	var ids []kernel.JobID
	for _, id := range view.IDs(text) {
		if kernel.ValidJobID(id) {
			ids = append(ids, kernel.JobID(id))
		}
	}
	if len(ids) == 0 {
		return text
	}
	snap, err := s.r.Scheduler.Records(ctx, app.Only(ids))
	if err != nil {
		return text // with ids is better than not at all
	}
	return view.People(snap, text)
}

// errWho says that the requesting process is not known.
var errWho = errors.New("cannot tell which process asks, so it may belong to a job: decide in a terminal")

// peers returns the processes that have the other end of a request's
// connection.
func peers(q *http.Request) ([]int, error) {
	theirs, err := netip.ParseAddrPort(q.RemoteAddr)
	if err != nil {
		return nil, errWho
	}
	here, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil, errWho
	}
	ours, err := netip.ParseAddrPort(here.String())
	if err != nil {
		return nil, errWho
	}
	pids, err := vizier.Peers(theirs, ours)
	if err != nil || len(pids) == 0 {
		return nil, errWho
	}
	return pids, nil
}

// outside returns an error if one of the requesting processes is part of a job.
func (a *actions) outside(ctx context.Context, what string) error {
	if where, inside := a.r.Scheduler.Inside(ctx); inside {
		return &app.InsideError{Verb: what, Descent: where}
	}
	return nil
}

// claim exchanges the key of an address for one of the page.
func (a *actions) claim(ctx context.Context, q *http.Request) (any, error) {
	if err := a.outside(ctx, "use the key of the page"); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := q.Header.Get(keyHeader)
	if !has(a.offered, key) {
		return nil, errKey
	}
	a.offered = slices.DeleteFunc(a.offered, func(k string) bool { return k == key })
	a.granted = append(a.granted, rand.Text())
	return map[string]string{"key": a.granted[len(a.granted)-1]}, nil
}

// wish is the body of a request for an action.
type wish struct {
	What   string          `json:"what"` // approve, reject, retry or cancel
	Job    kernel.JobID    `json:"job"`
	Digest kernel.Digest   `json:"digest"` // for approve: of what the page showed
	Head   kernel.CommitID `json:"head"`   // for approve: of the branch, if the page showed one
	Reason string          `json:"reason"` // for reject
}

// act performs an action by calling the use case that the command calls.
func (a *actions) act(ctx context.Context, q *http.Request) (any, error) {
	a.mu.Lock()
	known := has(a.granted, q.Header.Get(keyHeader))
	a.mu.Unlock()
	if !known {
		return nil, errKey
	}
	var x wish
	d := json.NewDecoder(q.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return nil, fmt.Errorf("%w: %w", err, kernel.ErrInvalid)
	} else if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is more than one document: %w", kernel.ErrInvalid)
	}
	if !kernel.ValidJobID(string(x.Job)) {
		return nil, fmt.Errorf("job %q: %w", x.Job, kernel.ErrNotFound)
	}
	if err := a.outside(ctx, x.What); err != nil {
		return nil, err
	}
	const how = "page"
	s, who := a.r.Scheduler, a.who(ctx)
	var rep app.Report
	var err error
	switch {
	case x.What == "approve" && x.Digest == "":
		err = fmt.Errorf("approve needs the digest of what was shown: %w", kernel.ErrInvalid)
	case x.What == "approve":
		rep, err = s.Approve(ctx, x.Job, kernel.Consent{By: who, How: how, Digest: x.Digest, Head: x.Head})
	case x.What == "reject":
		rep, err = s.Reject(ctx, x.Job, kernel.Refusal{By: who, How: how, Reason: x.Reason})
	case x.What == "retry":
		rep, err = s.Retry(ctx, who, x.Job)
	case x.What == "cancel":
		rep, err = s.Cancel(ctx, x.Job, who+" on the "+how, a.r.Refresh().Jobs.Cancel.CleanupWorktree)
	default:
		err = fmt.Errorf("%q is no action: %w", x.What, kernel.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return map[string]string{"status": rep.Snapshot.Job(x.Job).State.Status.String()}, nil
}
