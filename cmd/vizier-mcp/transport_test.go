package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// wire is pipes with a session that has begun.
func wire(t *testing.T, dir string) (send func(line string), answer func() string) {
	t.Helper()
	send, answer = pipes(t, dir)
	send(`{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	answer()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return send, answer
}

// pipes starts `vizier mcp` in dir, for a client of which every byte counts.
func pipes(t *testing.T, dir string) (send func(line string), answer func() string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "vizier"), "mcp")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error("it ends with ", err)
		}
	})
	lines := bufio.NewReader(out)
	send = func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	answer = func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal("it answers no more: ", err)
		}
		return line
	}
	return send, answer
}

// What is no request is answered with an error of the protocol, and costs nothing else.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	send, answer := wire(t, repository(t))
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"status","arguments":{}}}`)
	flight := ""
	for _, c := range []struct{ line, id, code string }{
		{`not JSON`, `null`, `-32700`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"`, `null`, `-32700`},
		{"\xff", `null`, `-32700`},
		{strings.Repeat("[", 1<<20), `null`, `-32700`},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `null`, `-32600`},
		{`[]`, `null`, `-32600`},
		{`5`, `null`, `-32600`},
		{`null`, `null`, `-32600`},
		{`{}`, `null`, `-32600`},
		{`{"jsonrpc":"1.0","id":2,"method":"ping"}`, `2`, `-32600`},
		{`{"jsonrpc":"2.0","id":"a","method":5}`, `"a"`, `-32600`},
		{`{"jsonrpc":"2.0","id":2}`, `2`, `-32600`},
		{`{"jsonrpc":"2.0","id":4.5,"method":"ping"}`, `4.5`, `-32600`},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `9007199254740993`, `-32600`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping","x":"` + strings.Repeat("x", mostLine) + `"}`, `null`, `-32600`},
	} {
		send(c.line)
		line := answer()
		if strings.Contains(line, `"id":1,`) && flight == "" { // it was in flight
			flight, line = line, answer()
		}
		var doc struct {
			ID    json.RawMessage
			Error struct {
				Code    json.Number
				Message string
			}
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil || string(doc.ID) != c.id || doc.Error.Code.String() != c.code || doc.Error.Message == "" {
			t.Errorf("%.60q: %v: %s", c.line, err, line)
		}
	}
	if flight == "" {
		flight = answer()
	}
	if !strings.Contains(flight, `"id":1,"result":`) {
		t.Errorf("what was in flight: %s", flight)
	}
	for _, silent := range []string{"", "  ", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`, `{"jsonrpc":"2.0","id":77,"result":{}}`} {
		send(silent)
	}
	for _, id := range []string{`2`, `-7`, `"4.5"`, `9007199254740991`} {
		send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if got := answer(); !strings.Contains(got, `"id":`+id+`,"result":{}`) {
			t.Errorf("id %s: %s", id, got)
		}
	}
}

// The text of a resource is there, even if it is empty.
func TestAnEmptyResource(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	vizier(t, dir, "submit", "--", "sh", "-c", "echo '<b>' >&2")
	vizier(t, dir, "wait", "1")
	send, answer := wire(t, dir)
	for stream, want := range map[string]string{"stdout": "", "stderr": "<b>\n"} {
		send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"vizier://jobs/1/log/` + stream + `"}}`)
		line := answer()
		var doc struct {
			Result struct {
				Contents []map[string]string
			}
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil || len(doc.Result.Contents) != 1 {
			t.Fatalf("%v: %s", err, line)
		}
		text, has := doc.Result.Contents[0]["text"]
		if !has || text != want || doc.Result.Contents[0]["mimeType"] != "text/plain" {
			t.Errorf("%s: %s", stream, line)
		}
	}
}

// A call that its client cancels gets no answer, others do.
func TestACancelledCall(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c, err := transport{strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"tools/call"}
{"jsonrpc":"2.0","id":1,"method":"tools/call"}
{"jsonrpc":"2.0","id":2,"method":"tools/call"}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}
`), &out, nil}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var calls []jsonrpc.ID
	for range 7 {
		m, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r := m.(*jsonrpc.Request); r.IsCall() {
			calls = append(calls, r.ID)
		}
	}
	for _, id := range calls {
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != `{"jsonrpc":"2.0","id":2,"result":{}}`+"\n" {
		t.Errorf("answers:\n%s", got)
	}
}

// So many queries at once start no more commands at once than are allowed.
func TestManyQueriesAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\ncd " + dir + "\nmkdir in/$$\nls in | wc -l >seen/$$\nuntil [ -e go ]; do sleep .05; done\nrmdir in/$$\necho done\n"
	if err := errors.Join(os.WriteFile(dir+"/vizier", []byte(script), 0o700), os.Mkdir(dir+"/in", 0o700), os.Mkdir(dir+"/seen", 0o700)); err != nil {
		t.Fatal(err)
	}
	p := program{file: dir + "/vizier", dir: dir, busy: make(chan struct{}, mostCommands)}
	var all sync.WaitGroup
	for range 5 * mostCommands {
		all.Go(func() {
			if out, err := p.ask(t.Context(), "mcp:t", asked{args: []string{"status"}, text: true}); err != nil || string(out) != "done\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for begun := 0; begun < mostCommands; {
		names, err := os.ReadDir(dir + "/seen")
		if err != nil {
			t.Fatal(err)
		}
		begun = len(names)
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	names, _ := filepath.Glob(dir + "/seen/*")
	if len(names) != 5*mostCommands {
		t.Errorf("%d commands ran", len(names))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if n, _ := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || n < 1 || n > mostCommands {
			t.Errorf("%d at once: %v", n, err)
		}
	}
}

// Every error of the protocol has a code.
func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	send, answer := pipes(t, repository(t))
	has := func(line, code, says string) {
		t.Helper()
		send(line)
		if got := answer(); !strings.Contains(got, `"error":{"code":`+code+`,`) || !strings.Contains(got, says) {
			t.Errorf("%s: %s", line, got)
		}
	}
	has(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "-32600", "initialization")
	send(`{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	answer()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for uri, says := range map[string]string{"vizier://jobs/9/log/stdout": "no job", "vizier://jobs/-C/log/stdout": "not a reference", "vizier://jobs/9/artifact/x": "expected KIND:NAME"} {
		has(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`"}}`, "-32602", says)
	}
}

// What a client asks before it closes the input is answered, with and without a newline at the end.
func TestAClientThatAsksAndHangsUp(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	const asks = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":{}}}
{"jsonrpc":"2.0","id":3,"method":"tools/list"}`
	for _, end := range []string{"", "\n"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "vizier"), "mcp")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(asks+end)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), `"isError":true`) {
			t.Errorf("a tool failed:\n%s", out)
		}
		for id := 1; id <= 3; id++ {
			if n := strings.Count(string(out), fmt.Sprintf(`"id":%d,"result":{`, id)); n != 1 {
				t.Errorf("call %d has %d answers:\n%s", id, n, out)
			}
		}
	}
}
