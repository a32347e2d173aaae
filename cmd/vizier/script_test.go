package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
)

// TestScripts runs whole commands over real repositories and real processes.
// Each script starts at the root of a repository with one empty commit; -update
// rewrites what they expect.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			home := env.WorkDir + "-home" // beside the repository
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			for _, kv := range []string{"USER=ann", "HOME=" + home, "GORACE=" + os.Getenv("GORACE"), "MUTANT=" + os.Getenv("MUTANT"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "VIZIER_SCHEDULER_RESIDENT=false", // tested by itself
				"PATH=" + withoutAgents(env.Getenv("PATH")), "GOCACHE=" + goCache(),
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", // a process for each commit
				"GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@b"} {
				name, value, _ := strings.Cut(kv, "=")
				env.Setenv(name, value)
			}
			for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"commit", "-q", "--allow-empty", "-m", "start"}} {
				git := exec.Command("git", args...)
				git.Dir, git.Env = env.WorkDir, env.Vars
				if out, err := git.CombinedOutput(); err != nil {
					t.Errorf("git %s: %v\n%s", strings.Join(args, " "), err, out)
					return err
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "unshare":
				return proc.PIDSpace() != "" && exec.Command("unshare", "-pf", "--mount-proc", "true").Run() == nil, nil
			case "limits": // which the system tells of other processes, too
				return proc.PIDSpace() != "", nil
			case "sandbox":
				return sandbox.This().Enforcement().Files == "", nil
			case "offline":
				return sandbox.This().Enforcement().Network == "", nil
			case "cutlogs", "ordered": // what the system tells of logs
				_, err := joblog.Reopen(os.Stdout)
				return !errors.Is(err, errors.ErrUnsupported), nil
			default:
				return false, fmt.Errorf("unknown condition %q", name)
			}
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"setid": setid, "idof": idof, "exits": exitsWith, "conforms": conformsTo},
	})
}

// goCache returns where the Go compiler keeps what it has compiled.
func goCache() string {
	dir, _ := os.UserCacheDir()
	return cmp.Or(os.Getenv("GOCACHE"), filepath.Join(dir, "go-build"))
}

// withoutAgents returns path without the directories that have agents: what
// this machine has installed is no matter of these tests.
func withoutAgents(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return slices.ContainsFunc(agent.Known(), func(name string) bool {
			_, err := exec.LookPath(filepath.Join(dir, name))
			return err == nil
		})
	})
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// setid is `setid NAME...`: the lines of the last command's output, which must
// be as many, become variables.
func setid(ts *testscript.TestScript, neg bool, names []string) {
	lines := strings.Fields(ts.ReadFile("stdout"))
	if neg || len(lines) != len(names) {
		ts.Fatalf("setid: %d names for %d lines", len(names), len(lines))
	}
	for i, name := range names {
		ts.Setenv(name, lines[i])
	}
}

// idof is `idof NAME...`: NAME_ID becomes the id of the job, or of the run, that
// the variable NAME has the number of.
func idof(ts *testscript.TestScript, neg bool, names []string) {
	records, err := filepath.Glob(ts.MkAbs(".vizier/jobs/*/job.json"))
	ts.Check(err)
	for _, name := range names {
		ref, id := ts.Getenv(name), ""
		for _, file := range records {
			var r struct {
				ID       string `json:"id"`
				Number   int
				Part     string
				Metadata struct {
					Run string `json:"workflow_run_id"`
				}
			}
			ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &r))
			switch n := strconv.Itoa(r.Number); {
			case ref == n && r.Part == "", ref == n+"/"+r.Part:
				id = r.ID
			case ref == n && id == "" && r.Metadata.Run != "":
				id = r.Metadata.Run
			}
		}
		if neg || id == "" {
			ts.Fatalf("idof: %s is %q, which no record has", name, ref)
		}
		ts.Setenv(name+"_ID", id)
	}
}

// exitsWith is `exits CODE PROGRAM ARG...`: the program must end with that
// very code.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit %s, want %s", code, args[0])
	}
}

// conformsTo is `conforms SCHEMA`: the last command's output must be a document
// of that schema in docs/schemas.
func conformsTo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) == 2 && args[1] != "lines" || len(args) > 2 {
		ts.Fatalf("usage: conforms SCHEMA [lines]")
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schemas", args[0]+".schema.json"))
	ts.Check(err)
	docs := []string{ts.ReadFile("stdout")}
	if len(args) == 2 {
		docs = strings.Split(strings.TrimSpace(docs[0]), "\n")
	}
	for _, doc := range docs {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		ts.Check(err)
		ts.Check(schema.Validate(value))
	}
}
