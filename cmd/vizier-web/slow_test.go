package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier"
)

// stuck is a client that reads nothing: a write to it ends at its deadline.
type stuck struct {
	header   http.Header
	writing  chan struct{} // closed at the first write
	left     chan struct{} // closed to end a write that has no deadline
	deadline time.Time
	writes   int
}

func newStuck() *stuck {
	return &stuck{header: http.Header{}, writing: make(chan struct{}), left: make(chan struct{})}
}

func (s *stuck) Header() http.Header                { return s.header }
func (s *stuck) WriteHeader(int)                    {}
func (s *stuck) FlushError() error                  { return nil }
func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *stuck) Write([]byte) (int, error) {
	if s.writes++; s.writes == 1 {
		close(s.writing)
	}
	var late <-chan time.Time
	if !s.deadline.IsZero() {
		late = time.After(time.Until(s.deadline))
	}
	select {
	case <-late:
	case <-s.left:
	}
	return 0, io.ErrShortWrite
}

// A client that does not read its answer, or does not send the rest of its request, delays nobody else.
func TestASlowClientDelaysNobody(t *testing.T) {
	f := newField(t)
	s, web := f.server(nil)
	s.open()
	s.allow(vizier.Environment(nil).Who)
	answered := func(despite string) {
		t.Helper()
		got := make(chan int, 1)
		go func() {
			code, _ := f.get(web.URL + "/metrics")
			got <- code
		}()
		select {
		case code := <-got:
			if code != http.StatusOK {
				t.Errorf("despite %s: %d", despite, code)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("others wait for %s", despite)
		}
	}
	slow := newStuck()
	defer close(slow.left)
	go s.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	<-slow.writing
	answered("a client that does not read")

	body, rest := io.Pipe()
	defer rest.Close()
	q := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+s.prefix+"act", body)
	q.Header.Set("Origin", "http://127.0.0.1")
	q.Header.Set("Content-Type", "application/json")
	s.actions.granted = []string{"k"}
	q.Header.Set(keyHeader, "k")
	go s.ServeHTTP(httptest.NewRecorder(), q)
	if _, err := io.WriteString(rest, "{"); err != nil {
		t.Fatal(err)
	}
	answered("a client that does not send the rest")
}

// The connection of a client that reads nothing ends, also where it gets events.
func TestAClientThatReadsNothingIsLeft(t *testing.T) {
	f := newField(t)
	f.flow()
	s, _ := f.server(nil)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(s.r, assets{"app.js": []byte(strings.Repeat("x", 10*mostAtOnce))})
		slow := newStuck()
		began := time.Now()
		s.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+s.prefix+"app.js", nil))
		if took := time.Since(began); slow.writes != 1 || took != clientPatience {
			t.Errorf("it was left after %v and %d writes", took, slow.writes)
		}
	})
	slow := newStuck()
	go s.ServeHTTP(slow, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+s.prefix+"events", nil))
	<-slow.writing
	if slow.deadline.IsZero() {
		t.Error("an event may take for ever")
	}
	close(slow.left)
	gone := newStuck()
	close(gone.left)
	if err := s.follow(t.Context(), gone, 0, false); err != nil || gone.writes != 1 {
		t.Errorf("after %d writes to it, people in the terminal are told: %v", gone.writes, err)
	}
}
