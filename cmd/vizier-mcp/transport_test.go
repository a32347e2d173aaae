package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wire starts `vizier mcp` in dir, for a client of which every byte counts.
func wire(t *testing.T, dir string) (send func(line string), answer func() string) {
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
	send(`{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	answer()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
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
