package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/vizier-scheduler/vizier/app/answer"
)

// The name of somebody who wants a reader to see what is not there: it colours,
// begins a line of its own, clears the screen and turns text round.
const (
	hostile     = "H\x1b[31m\r\nFORGED \u009b2J\u202e\u2066\u200b\u00ad\x7f\U000e0041\u3164\u2800\u115f\u034f\ufe0fT"
	hostileJSON = `H\u001b[31m\r\nFORGED \u009b2J\u202e\u2066\u200b\u00ad\u007f\udb40\udc41\u3164\u2800\u115f\u034f\ufe0fT`
	placeholder = "HOSTILE"

	endedJob, heldJob = "1", "4" // jobs of that ground: one that failed, and one that waits for approval
)

var forged = regexp.MustCompile(`(?m)^(\[[^\]]*\] )?\s*(vizier: )*FORGED`)

// harmless fails where output has what a terminal acts on, or a line that a name
// began.
func harmless(t *testing.T, what, out string) {
	t.Helper()
	for i, r := range out {
		if r != '\n' && r != '\t' && answer.Unseen(r) || r == '\ufffd' {
			t.Errorf("%s: %U reaches the terminal: %q", what, r, out[max(0, i-80):min(len(out), i+20)])
			return
		}
	}
	if at := forged.FindStringIndex(out); at != nil {
		t.Errorf("%s: a name begins a line: %q", what, out[max(0, at[0]-80):min(len(out), at[1]+20)])
	}
}

// hostileGround returns a repository in whose records, files and names somebody
// hostile wrote.
func hostileGround(t *testing.T) *ground {
	g := newGround(t, "[pools]\np = 1\n")
	g.env = append(g.env, "VIZIER_SCHEDULER_RESIDENT=false")
	fails := `echo '{"done":1,"text":"` + placeholder + `"}' >$VIZIER_REPORT; echo '{"exit":3,"reason":"` + placeholder + `"}' >$VIZIER_RESULT_FILE`
	for _, args := range [][]string{
		{"--name", placeholder, "--lock", placeholder, "--", "sh", "-c", fails},
		{"--tag", "k=" + placeholder, "--", "true", placeholder},
		{"--produce", "custom:" + placeholder + ":r", "--", "true"},
		{"--name", placeholder, "--approval", "--lock", placeholder, "--", placeholder},
		{"--after", "1", "--name", placeholder, "--", placeholder},
		{"--need", "custom:" + placeholder + ":r", "--missing-producer", "wait", "--", placeholder},
		{"--require", "branch_exists=" + placeholder, "--", "true"},
	} {
		if _, err := g.run("vizier", append([]string{"jobs", "submit"}, args...)...); err != nil {
			t.Log(err) // as good: then there is none
		}
	}
	g.run("vizier", "jobs", "wait", "--timeout", "20s", "1", "2", "3")
	g.eventually("runners that have written all", func() bool { return len(g.processes("")) == 0 })
	err := filepath.WalkDir(filepath.Join(g.dir, ".vizier/jobs"), func(path string, d iofs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/journal/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(placeholder)) {
			err = os.WriteFile(path, bytes.ReplaceAll(text, []byte(placeholder), []byte(hostileJSON)), 0o600)
		}
		return err
	})
	broken := filepath.Join(g.dir, ".vizier/jobs/0199d3a4b5c670008000000000000001")
	err = errors.Join(err, os.RemoveAll(filepath.Join(g.dir, ".vizier/jobs/journal/cache")), os.Mkdir(broken, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	rel := func(at string) string { path, _ := filepath.Rel(g.dir, at); return path }
	g.write(rel(filepath.Join(broken, "job.json")), `{"version":1,"`+hostileJSON+`":1}`)
	for _, log := range []string{"stdout.log", "stderr.log"} {
		logs, _ := filepath.Glob(filepath.Join(g.dir, ".vizier/jobs/*/"+log))
		for _, path := range logs {
			g.write(rel(path), "log\n")
		}
	}
	g.write(".vizier/workflows/"+hostile+".toml", "id = \""+hostileJSONAsTOML+"\"\nversion = \"1\"\n[[nodes]]\nid = \"a\"\nuses = \"shell.run\"\nargs = { command = \"true\", x = \"\" }\n")
	g.write(".vizier/inbox/"+hostile+".new.prompt.md", "text "+hostile)
	g.write(".vizier/inbox/"+hostile, "text")
	g.write(".vizier/tmp/merge-conflicts/x.json", `{"`+hostileJSON+`":1}`)
	return g
}

var hostileJSONAsTOML = strings.NewReplacer(`\udb40\udc41`, `\U000e0041`).Replace(hostileJSON)

// TestNothingOfOthersReachesTheTerminal runs every command that there is, with every
// way it can look, over a store of somebody hostile.
func TestNothingOfOthersReachesTheTerminal(t *testing.T) {
	g := hostileGround(t)
	run := func(limit time.Duration, args []string) {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "vizier", args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = g.dir, g.env, &out, &out, time.Second
		_ = cmd.Run()
		text := out.Bytes()
		if bytes.HasPrefix(text, []byte("vizier evidence ")) { // a file, which a terminal is refused
			text = nil
		}
		harmless(t, strings.Join(args, " "), string(text))
	}
	lines := make(chan []string)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for args := range lines {
				run(5*time.Second, args)
			}
		})
	}
	commands := 0
	for _, args := range everyCommand(t) {
		commands++
		lines <- args
	}
	close(lines)
	work.Wait()
	if commands < 100 {
		t.Errorf("%d calls: the walk does not find the commands", commands)
	}
}

// everyCommand calls each command, in each format, about nothing, about jobs and
// about names. What never ends by itself is left out.
func everyCommand(t *testing.T) (calls [][]string) {
	var exited bool
	parser, err := newParser(&grammar{}, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, c := range n.Children {
			walk(c)
		}
		var path []string
		for at := n; at.Type == kong.CommandNode; at = at.Parent {
			path = slices.Insert(path, 0, at.Name)
		}
		if len(n.Children) > 0 || n.Type != kong.CommandNode || slices.Contains([]string{"inbox watch"}, strings.Join(path, " ")) {
			return
		}
		looks := [][]string{}
		for _, f := range n.Flags {
			if f.Name == "format" {
				for _, word := range strings.Split(f.Enum, ",") {
					if word != "" {
						looks = append(looks, []string{"--format", word})
					}
				}
			}
			if slices.Contains([]string{"all", "dry-run", "fields"}, f.Name) {
				looks = append(looks, map[string][]string{"all": {"--all"}, "dry-run": {"--dry-run"}, "fields": {"--fields", "job," + hostile}}[f.Name])
			}
		}
		abouts := [][]string{nil}
		if len(n.Positional) > 0 {
			abouts = append(abouts, []string{endedJob}, []string{hostile})
			if !slices.Contains([]string{"attach", "wait"}, path[len(path)-1]) { // they wait for its end
				abouts = append(abouts, []string{heldJob})
			}
		}
		for _, about := range abouts {
			calls = append(calls, slices.Concat(path, about))
		}
		for _, look := range looks {
			calls = append(calls, slices.Concat(path, look, abouts[min(1, len(abouts)-1)]))
		}
	}
	walk(parser.Model.Node)
	return calls
}
