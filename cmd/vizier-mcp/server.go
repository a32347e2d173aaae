package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const instructions = "Vizier schedules work inside a git repository: jobs, what each of them waits for, and why. " +
	"Name jobs by their numbers, such as 12, or 14/NODE for a job of a run; 14 is the whole run. " +
	"Begin with status. why says what holds a job up and which commands would start it. what_if says what would follow from a change, and changes nothing. " +
	"Only people approve: if an approval is pending, tell the person the command that status prints."

// server answers a client with the command line.
type server struct{ program program }

// newServer returns a server with the tools that only read, and those of the
// others that may allows.
func newServer(p program, may map[string]bool) *mcp.Server {
	s := server{p}
	out := mcp.NewServer(&mcp.Implementation{Name: "vizier", Title: "Vizier", Version: version()},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}})
	add(out, s, reads, "status", "What needs a person, what runs, what waits and for what, and what failed.", statusTool)
	add(out, s, reads, "list", "The jobs, newest first: number, reference with the run, name, status, what each waits for or how it ended, and command.", listTool)
	add(out, s, reads, "show", "Everything on record about a job or a run.", showTool)
	add(out, s, reads, "why", "Every condition that holds a job or a run up, who can clear it, and the commands that would start it.", whyTool)
	add(out, s, reads, "logs", "The last lines of output of a job, or of all jobs of a run together.", logsTool)
	add(out, s, reads, "what_if", "Which jobs would start, end or change their wait if something happened, by the code that makes the real decisions. It changes nothing.", whatIfTool)
	add(out, s, reads, "simulate", "When open jobs end, which resources they wait for, and what more of these would gain, from earlier durations. It changes nothing.", simulateTool)
	add(out, s, reads, "history", "Who did what, when, and how jobs changed.", historyTool)
	for _, t := range []struct {
		name string
		add  func()
	}{
		{"submit", func() {
			add(out, s, adds, "submit", "Enqueue commands as jobs; with dry_run, only say what would follow.", submitTool)
		}},
		{"run", func() {
			add(out, s, adds, "run", "Enqueue a workflow template; with dry_run, only check it and its input.", runTool)
		}},
		{"cancel", func() {
			add(out, s, ends, "cancel", "End jobs or runs; with dry_run, only say what would follow.", cancelTool)
		}},
		{"retry", func() {
			add(out, s, ends, "retry", "Run failed jobs, and the jobs that depend on them, again; with dry_run, only say what would run again.", retryTool)
		}},
	} {
		if may[t.name] {
			t.add()
		}
	}
	s.addResources(out)
	out.AddReceivingMiddleware(withText)
	return out
}

// version returns the version that the build recorded.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// effect is what a tool does to the repository.
type effect uint8

const (
	reads effect = iota
	adds
	ends
)

// asked is the command for a tool call: its arguments and its standard input.
type asked struct {
	args  []string
	stdin string
	text  bool // its output is not JSON
	lines int  // how many lines of text are answered, the last; 0: all

	changes bool // it changes the repository
}

// add adds a tool. command converts the tool's input to a command.
func add[In any](to *mcp.Server, s server, e effect, name, about string, command func(In) (asked, error)) {
	no := false
	tool := &mcp.Tool{Name: name, Description: about,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: e == reads, OpenWorldHint: &no}}
	if e == adds {
		tool.Annotations.DestructiveHint = &no
	}
	schema, err := jsonschema.For[In](&schemas)
	if err != nil {
		panic(fmt.Sprintf("the input of tool %s: %v", name, err)) // every test of the server would see it
	}
	tool.InputSchema = schema
	mcp.AddTool(to, tool, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		a, err := command(in)
		if err != nil {
			return nil, nil, err
		}
		answer, err := s.program.ask(ctx, client(r.Session), a)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(answer)}}, StructuredContent: document(answer)}, nil, nil
	})
}

// client returns the name of a session's client for the record.
func client(s *mcp.ServerSession) string {
	name := "unknown"
	if p := s.InitializeParams(); p != nil && p.ClientInfo != nil {
		name = strings.Map(func(r rune) rune {
			if r == '-' || r == '.' || r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
			return '-'
		}, p.ClientInfo.Name)
	}
	return fmt.Sprintf("mcp:%.60s", name)
}

// mostRefs is how many jobs one call may name.
const mostRefs = 200

// reference names a job, a run, a lock or a branch. In JSON it may be a string
// or a number, because assistants send numbers either way.
type reference string

// UnmarshalJSON implements json.Unmarshaler.
func (r *reference) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(r))
	}
	var n json.Number
	err := json.Unmarshal(b, &n)
	*r = reference(n)
	return err
}

// schemas are the schemas of types for which reflection is not enough.
var schemas = jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{ //nolint:gochecknoglobals // a constant
	reflect.TypeFor[reference](): {Types: []string{"string", "integer"}},
}}

// refs converts references to jobs to arguments of a command.
func refs(given ...reference) (out []string, err error) {
	if len(given) > mostRefs {
		return nil, fmt.Errorf("%d jobs are too many: one call can name %d", len(given), mostRefs)
	}
	for _, r := range given {
		ref := string(r)
		switch {
		case ref == "":
			return nil, errors.New("name a job: its number, such as 12 or 14/NODE, its name or its id")
		case len(ref) > 256 || strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, unicode.IsControl):
			return nil, fmt.Errorf("%.40q is not a reference to a job: expected its number, such as 12 or 14/NODE, its name or its id", ref)
		}
		out = append(out, ref)
	}
	return out, nil
}

// flags returns one flag for each of values.
func flags(name string, values ...string) (out []string) {
	for _, v := range values {
		if v != "" {
			out = append(out, "--"+name+"="+v)
		}
	}
	return out
}

func (s server) addResources(out *mcp.Server) {
	out.AddResourceTemplate(&mcp.ResourceTemplate{Name: "log", URITemplate: "vizier://jobs/{job}/log/{stream}", MIMEType: "text/plain",
		Description: "The last 200 lines of a job's output, after a line that says so if there are more; the tool logs can give others. job is its number with / written as %2F, such as 14%2Fbuild; stream is stdout, stderr or both."}, s.readResource)
	out.AddResourceTemplate(&mcp.ResourceTemplate{Name: "artifact", URITemplate: "vizier://jobs/{job}/artifact/{+artifact}", MIMEType: "application/json",
		Description: "The data of an artifact that a job made, such as custom:operation_output:build. job is its number with / written as %2F."}, s.readResource)
}

func (s server) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := r.Params.URI
	path, ok := strings.CutPrefix(uri, "vizier://jobs/")
	parts := strings.SplitN(path, "/", 3) // an artifact may contain /
	if !ok || len(parts) != 3 {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
	}
	a, mime, err := asked{}, "text/plain", error(nil)
	switch parts[1] {
	case "log":
		a, err = logsTool(logsInput{Job: reference(parts[0]), Stream: parts[2]})
	case "artifact":
		mime = "application/json"
		var job []string
		if job, err = refs(reference(parts[0])); err == nil {
			a.args = append(append([]string{"jobs", "payload"}, flags("job", job...)...), "--", parts[2])
		}
	default:
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	text, err := s.program.ask(ctx, client(r.Session), a)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case err != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: mime, Text: string(text)}}}, nil
}

// withText adds the text that the library leaves out of an empty resource; see readResult.
func withText(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if read, ok := result.(*mcp.ReadResourceResult); ok && err == nil {
			return readResult{read}, nil
		}
		return result, err
	}
}

// readResult is the content of a resource. It always has a text, even an empty
// one: the protocol requires it, but the library leaves out an empty text.
type readResult struct{ *mcp.ReadResourceResult }

// MarshalJSON implements json.Marshaler.
func (r readResult) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(r.ReadResourceResult)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	contents := make([]any, len(r.Contents))
	for i, c := range r.Contents {
		contents[i] = map[string]string{"uri": c.URI, "mimeType": c.MIMEType, "text": c.Text}
	}
	doc["contents"] = contents
	return json.Marshal(doc)
}

// lines encodes documents as JSON Lines.
func lines(docs []map[string]any) (string, error) {
	var out strings.Builder
	for _, d := range docs {
		data, err := json.Marshal(d)
		if err != nil {
			return "", err
		}
		out.Write(append(data, '\n'))
	}
	if out.Len() > mostBytes {
		return "", fmt.Errorf("the jobs together are longer than %s bytes: submit fewer at a time", strconv.Itoa(mostBytes))
	}
	return out.String(), nil
}
