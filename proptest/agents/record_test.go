package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/proptest/agents/model"
)

// TestRecord writes what the programs print in each case to files that the tests
// of package agent read, if $RECORD_STREAMS is set. The files have no path, id,
// address or time of this machine.
func TestRecord(t *testing.T) {
	if os.Getenv("RECORD_STREAMS") == "" {
		t.Skip("RECORD_STREAMS=1 records anew")
	}
	t.Parallel()
	for _, name := range []string{model.Plain, model.Edit, model.Run, model.Limit, model.Key, model.Overload, model.Busy, model.Cut, model.CutOnce, "gone", "resumed"} {
		t.Run(name, func(t *testing.T) {
			at := name
			if name == "gone" || name == "resumed" {
				at = model.Plain
			}
			each(t, at, func(x *trial, s agent.Settings) {
				x.model.Command = "make world"
				s.Timeout = 5 * time.Minute
				session := ""
				switch name {
				case "gone":
					session = "11111111-2222-4333-8444-555555555555"
				case "resumed":
					session = x.ask(s, "The word is marzipan.", "").Run.Session
					x.at(model.Recall)
				}
				record := filepath.Join(x.base, "record")
				environment, err := os.ReadFile(filepath.Join(x.base, "environment"))
				if err != nil {
					t.Fatal(err)
				}
				x.write("environment", string(environment)+"\nRECORD="+record+"-$$\n")
				x.ask(s, "Do it.", session)
				outs, err := filepath.Glob(record + "-*.out")
				if err != nil || len(outs) == 0 {
					t.Fatalf("nothing is recorded, %v", err)
				}
				slices.SortFunc(outs, func(a, b string) int {
					x, _ := os.Stat(a)
					y, _ := os.Stat(b)
					return x.ModTime().Compare(y.ModTime())
				})
				base := strings.TrimSuffix(outs[0], ".out") // the first: if the session is gone, the one that says so
				files := &txtar.Archive{}
				for _, part := range []string{"out", "err", "exit"} {
					data, err := os.ReadFile(base + "." + part)
					if err != nil {
						t.Fatal(err)
					}
					files.Files = append(files.Files, txtar.File{Name: part, Data: x.scrub(s.Label, part, data)})
				}
				to := filepath.Join("..", "..", "adapters", "proc", "agent", "testdata", "streams", s.Label+"-"+name+".txtar")
				if err := put(to, string(txtar.Format(files))); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment  = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d[.\d-]*Z`)
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	scratch = regexp.MustCompile(`/tmp/vizier-agent-\d+`)
	unix    = regexp.MustCompile(`(_)\d{13}(_)`)
	// Keys that only describe the machine, the programs' features or their speed.
	dull = []string{"tools", "slash_commands", "agents", "skills", "plugins", "memory_paths", "mcp_servers", "duration_ms", "duration_api_ms", "ttft_ms",
		"ttft_stream_ms", "time_to_request_ms", "uuid", "output_style", "analytics_disabled", "product_feedback_disabled", "fast_mode_state", "apiKeySource"}
)

// scrub removes from a recording what is specific to this machine.
func (x *trial) scrub(label, part string, data []byte) []byte {
	ids := map[string]string{}
	var out bytes.Buffer
	for line := range strings.Lines(string(data)) {
		if part == "err" && label == "gemini" && !strings.HasPrefix(line, "Attempt ") && !strings.Contains(line, "Error ") && !strings.HasPrefix(line, "    at ") {
			continue // gemini writes pages of text, with paths of all kinds
		}
		var event map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &event) == nil {
			maps.DeleteFunc(event, func(key string, _ json.RawMessage) bool { return slices.Contains(dull, key) })
			if encoded, err := json.Marshal(event); err == nil {
				line = string(encoded) + "\n"
			}
		}
		line = uuid.ReplaceAllStringFunc(line, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(ids)+1)
			}
			return ids[id]
		})
		line = strings.NewReplacer(x.repo, "/work", x.base, "/base", homes, "/home/ann", filepath.Dir(filepath.Dir(programs)), "/programs").Replace(line)
		line = moment.ReplaceAllString(line, "2026-01-31T12:00:00.000Z")
		line = address.ReplaceAllString(line, "127.0.0.1:80")
		line = scratch.ReplaceAllString(line, "/tmp/scratch")
		line = unix.ReplaceAllString(line, "${1}0${2}")
		out.WriteString(line)
	}
	return out.Bytes()
}
