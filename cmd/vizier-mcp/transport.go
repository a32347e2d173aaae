package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mostLine is the maximum size of a message, in bytes. Everything that a tool
// accepts fits, even with each character escaped.
const mostLine = 16 << 20

// ahead is how many messages are read before the earlier ones are handled, so that
// the end of the input is noticed even while an answer cannot be written.
const ahead = 256

// stuckAfter is how long the writing of one answer may take after the session was to
// end. After that, probably nobody reads the answers any more.
const stuckAfter = time.Second

// lastAnswers is how long after the end of the input the calls before it may still be
// answered.
const lastAnswers = 5 * time.Second

// transport reads and writes one message per line. It answers an invalid message
// itself: the library would end the session, and with it the requests in flight.
type transport struct {
	in    io.Reader
	out   io.Writer
	leave func() // ends the program; called if the session is to end and an answer cannot be written
}

// Connect implements mcp.Transport. The session is to end when the input or ctx does.
func (t transport) Connect(ctx context.Context) (mcp.Connection, error) {
	c := &connection{out: t.out, leave: t.leave, open: map[jsonrpc.ID]bool{}, settled: make(chan struct{}, 1), read: make(chan received, ahead), closed: make(chan struct{})}
	context.AfterFunc(ctx, c.leaveWhenStuck)
	go c.receive(bufio.NewReader(t.in))
	return c, nil
}

type connection struct {
	writing sync.Mutex // held while writing a line
	out     io.Writer
	writes  atomic.Uint64 // number of writes begun plus ended: odd while one is under way
	leave   func()

	mu      sync.Mutex          // guards open
	open    map[jsonrpc.ID]bool // the calls without an answer; true: cancelled, so none is due
	settled chan struct{}       // has an element after open lost one
	read    chan received
	closed  chan struct{}
	once    sync.Once
}

// received is a message, or the error after which no message comes.
type received struct {
	message jsonrpc.Message
	err     error
}

// SessionID implements mcp.Connection.
func (c *connection) SessionID() string { return "" }

// Read implements mcp.Connection.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-c.read:
		return r.message, r.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		defer c.settle(r.ID)
		if c.cancelled(r.ID) {
			return nil
		}
		if coded := (*jsonrpc.Error)(nil); r.Error != nil && !errors.As(r.Error, &coded) { // the library has no code for a call before initialize
			r.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.Error.Error()}
		}
	}
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.send(text)
}

// note takes down which calls are open, and which of these the client cancels.
func (c *connection) note(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.IsCall() {
		if _, known := c.open[r.ID]; !known { // the library refuses a second one
			c.open[r.ID] = false
		}
		return
	}
	var given mcp.CancelledParams
	if r.Method != "notifications/cancelled" || json.Unmarshal(r.Params, &given) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(given.RequestID); err == nil {
		if _, known := c.open[id]; known {
			c.open[id] = true
		}
	}
}

// cancelled reports whether the client has cancelled a call.
func (c *connection) cancelled(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

// settle ends a call.
func (c *connection) settle(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
	select {
	case c.settled <- struct{}{}:
	default:
	}
}

// awaitAnswers returns once no answer is due, the session has ended, or lastAnswers has passed.
func (c *connection) awaitAnswers() {
	for end := time.After(lastAnswers); c.due(); {
		select {
		case <-c.settled:
		case <-c.closed:
			return
		case <-end:
			return
		}
	}
}

// due reports whether the client waits for an answer.
func (c *connection) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancelled := range c.open {
		if !cancelled {
			return true
		}
	}
	return false
}

func (c *connection) send(text []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.writes.Add(1)
	defer c.writes.Add(1)
	_, err := c.out.Write(append(text, '\n'))
	return err
}

// leaveWhenStuck calls leave once a single write has taken too long, unless the session ends before.
func (c *connection) leaveWhenStuck() {
	for before := c.writes.Load(); ; {
		select {
		case <-c.closed:
			return
		case <-time.After(stuckAfter):
		}
		now := c.writes.Load()
		if now == before && now%2 == 1 {
			c.leave()
			return
		}
		before = now
	}
}

// Close implements mcp.Connection.
func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// receive passes messages on until there are no more.
func (c *connection) receive(in *bufio.Reader) {
	for {
		line, err := readLine(in)
		var r received
		switch {
		case errors.Is(err, errLong):
			r.err = c.refuse(nil, jsonrpc.CodeInvalidRequest, err)
		case err != nil:
			r.err = err
		default:
			r.message, r.err = c.accept(bytes.TrimSpace(line))
			c.note(r.message)
		}
		if r.message == nil && r.err == nil {
			continue
		}
		if r.err != nil {
			go c.leaveWhenStuck()
			c.awaitAnswers()
		}
		select {
		case c.read <- r:
		case <-c.closed:
			return
		}
		if r.err != nil {
			return
		}
	}
}

var errLong = fmt.Errorf("a message has at most %d bytes", mostLine)

// readLine returns the next line; the last one may lack its newline. It skips a
// line that is too long, and returns errLong for it.
func readLine(in *bufio.Reader) (line []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > mostLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLong
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}

// accept returns the message in a line, or nil if nothing is to be passed on: the
// line is empty, answers no request of this server, or was answered with an error.
func (c *connection) accept(line []byte) (jsonrpc.Message, error) {
	switch {
	case len(line) == 0:
		return nil, nil
	case !json.Valid(line):
		return nil, c.refuse(nil, jsonrpc.CodeParseError, errors.New("this is not JSON: a message is one line"))
	case line[0] == '[':
		return nil, c.refuse(nil, jsonrpc.CodeInvalidRequest, errors.New("batches are not supported: send one request per line"))
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil {
		return nil, c.refuse(nil, jsonrpc.CodeInvalidRequest, errors.New("a request is an object"))
	}
	id, has := keys["id"]
	_, asks := keys["method"]
	answers := keys["result"] != nil || keys["error"] != nil
	known := exact(id)
	if !known && (len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9')) {
		id = nil // neither a string nor a number
	}
	switch {
	case asks && has && !known:
		return nil, c.refuse(id, jsonrpc.CodeInvalidRequest, errors.New("an id is a string or an integer of at most 53 bits"))
	case !asks && !answers:
		return nil, c.refuse(id, jsonrpc.CodeInvalidRequest, errors.New("a request has a method"))
	case !asks && !known: // an answer to no request of this server
		return nil, nil
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, c.refuse(id, jsonrpc.CodeInvalidRequest, err)
	}
	return m, nil
}

// exact reports whether the library returns an id unchanged: it stores numbers
// as floating-point numbers, and cuts off fractions.
func exact(id json.RawMessage) bool {
	if len(id) > 0 && id[0] == '"' {
		return true
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -1<<53 <= n && n <= 1<<53
}

// refuse answers with an error; id is nil if it is not known.
func (c *connection) refuse(id json.RawMessage, code int64, why error) error {
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, &jsonrpc.Error{Code: code, Message: why.Error()}})
	if err != nil {
		return err
	}
	return c.send(text)
}
