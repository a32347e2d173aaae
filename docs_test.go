package vizier_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// readPages returns the Markdown files of the project.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
	}
	if len(out) < 10 {
		t.Fatalf("found only %d pages", len(out))
	}
	return out
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	span    = regexp.MustCompile("`([^`\n]+)`")
)

// Blocks to paste have no comments: in an interactive zsh, as on macOS, `#` begins none. Scripts begin
// with one.
func TestBlocksCanBePasted(t *testing.T) {
	t.Parallel()
	blocks := 0
	for page, text := range readPages(t) {
		for _, block := range fence.FindAllString(text, -1) {
			script, is := strings.CutPrefix(block, "```sh\n")
			if !is || strings.HasPrefix(script, "#") {
				continue
			}
			blocks++
			for line := range strings.Lines(script) {
				if strings.HasPrefix(line, "#") || strings.Contains(line, " #") {
					t.Errorf("%s: %s", page, line)
				}
			}
		}
	}
	if blocks < 5 {
		t.Errorf("found only %d blocks", blocks)
	}
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127 && r != '·' && r != '–':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		out[name] = true
	}
	return out
}

func TestLinksResolve(t *testing.T) {
	all := readPages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", name, m[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: link %s: no such heading", name, m[1])
			}
		}
	}
}

// declared returns the names that the module's Go code declares: each on its
// own, and those at the top of a file after their package as well.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				out[n.Name.Name] = true
				if n.Recv == nil {
					out[f.Name.Name+"."+n.Name.Name] = true
				}
			case *ast.TypeSpec:
				out[n.Name.Name], out[f.Name.Name+"."+n.Name.Name] = true, true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					out[id.Name], out[f.Name.Name+"."+id.Name] = true, true
				}
			case *ast.Field:
				for _, id := range n.Names {
					out[id.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	identifier = regexp.MustCompile(`^(?:[a-z]\w*\.)?[A-Z][a-z]\w*(?:\.[A-Z]\w*)?$`)
	sourcePath = regexp.MustCompile(`^(?:kernel|app|adapters|cmd|proptest|scripts|docs|\.ci)(?:/[\w.-]+)*/?$`)
	goFile     = regexp.MustCompile(`^\w+\.go$`)
)

// What a page names exists: files and packages, exported names, tests.
func TestNamesInDocsExist(t *testing.T) {
	names, checked := declared(t), 0
	for page, text := range readPages(t) {
		for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			s := m[1]
			switch {
			case sourcePath.MatchString(s) && strings.Contains(s, "/"):
				checked++
				if _, err := os.Stat(s); err != nil {
					t.Errorf("%s names %s: %v", page, s, err)
				}
			case goFile.MatchString(s):
				checked++
				if found, _ := filepath.Glob(s); found == nil {
					t.Errorf("%s names the file %s: not at the root", page, s)
				}
			case identifier.MatchString(s):
				checked++
				parts := strings.Split(s, ".")
				known := names[s]
				if len(parts) > 1 && !known { // Type.Member, or package.Type.Member
					head := strings.Join(parts[:len(parts)-1], ".")
					known = names[head] && names[parts[len(parts)-1]]
				}
				if !known {
					t.Errorf("%s names %s: not declared", page, s)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d names checked", checked)
	}
}

// programs is the directory for those that tests run.
var programs string

func TestMain(m *testing.M) { os.Exit(withPrograms(m)) }

func withPrograms(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "vizier-programs-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programs)
	return m.Run()
}

var built = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", programs, "./cmd/vizier", "./cmd/vizier-metrics")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
})

// buildVizier builds the program once and returns its directory.
func buildVizier(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return programs
}

var (
	flagWord = regexp.MustCompile(`--[a-z][a-z-]*`)
	command  = regexp.MustCompile(`^\$?\s*vizier((?: [a-z][a-z-]*)*)`)
	section  = regexp.MustCompile(`^\[([a-z_.]+)\] (\w+)$`)
)

// Commands, flags and configuration keys that a page names are the program's.
func TestCommandsInDocsExist(t *testing.T) {
	vizier := filepath.Join(buildVizier(t), "vizier")
	help := map[string]string{}
	helpOn := func(words string) string {
		text, ok := help[words]
		if !ok {
			out, err := exec.Command(vizier, append([]string{"help"}, strings.Fields(words)...)...).Output()
			if text = string(out); err != nil {
				text = ""
			}
			help[words] = text
		}
		return text
	}
	pages := readPages(t)
	settings, anyFlag := pages["docs/config.md"], ""
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)(?: \([a-z,]+\))?   *[A-Z]`).FindAllStringSubmatch(helpOn("--all"), -1) {
		anyFlag += helpOn(m[1])
	}
	anyFlag += templateFlags(t)
	for page, text := range pages {
		if page == "docs/config.md" || strings.HasPrefix(page, "docs/formats/") {
			continue // held to their own packages
		}
		for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			s, _, _ := strings.Cut(m[1], " -- ")
			flags := flagWord.FindAllString(s, -1)
			switch c := command.FindStringSubmatch(s); {
			case section.MatchString(s):
				key := section.FindStringSubmatch(s)
				if !strings.Contains(settings, "| `"+key[1]+"."+key[2]+"` |") {
					t.Errorf("%s: `%s`: no such setting", page, s)
				}
			case c != nil && c[1] != "":
				words := strings.TrimPrefix(strings.TrimSpace(c[1]), "help ")
				whole := words
				for helpOn(words) == "" && strings.Contains(words, " ") { // the last word may be an argument
					words = words[:strings.LastIndexByte(words, ' ')]
				}
				if text := helpOn(words); text == "" || words != whole && strings.Contains(text, "\nCommands:") {
					t.Errorf("%s: `%s`: no such command", page, s)
				}
				for _, f := range flags {
					if !strings.Contains(helpOn(words), f) {
						t.Errorf("%s: `%s`: vizier %s has no flag %s", page, s, words, f)
					}
				}
			case strings.HasPrefix(s, "--") && strings.HasPrefix(page, "docs/user/"):
				if !strings.Contains(anyFlag, flags[0]) {
					t.Errorf("%s: `%s`: no command has that flag", page, s)
				}
			}
		}
	}
}

// templateFlags returns the flags that the shipped templates' parameters and
// their other names make.
func templateFlags(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("adapters/fs/template/shipped/*.toml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no shipped templates: %v", err)
	}
	flags := ""
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range regexp.MustCompile(`(?m)^\[(?:params|cli\.named)\]\n((?:\w+ = .*\n)+)`).FindAllStringSubmatch(string(text), -1) {
			for _, key := range regexp.MustCompile(`(?m)^\w+`).FindAllString(table[1], -1) {
				flags += " --" + strings.ReplaceAll(key, "_", "-")
			}
		}
	}
	return flags
}

// The table of exit codes in docs/user/jobs.md is the program's: the numbers
// are those of its help, the words those that its errors carry.
func TestExitCodesInDocs(t *testing.T) {
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|.*\|(.*)\|$`).FindAllStringSubmatch(readPages(t)["docs/user/jobs.md"], -1) {
		rows[m[1]] = m[2]
	}
	topic, err := os.ReadFile("cmd/vizier/help/exit-codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(\d+)  `).FindAllStringSubmatch(string(topic), -1) {
		numbers[m[1]] = true
		if _, ok := rows[m[1]]; !ok {
			t.Errorf("the table has no exit code %s", m[1])
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "cmd/vizier/exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) < 2 {
			return true
		}
		if id, ok := lit.Type.(*ast.Ident); !ok || id.Name != "class" {
			return true
		}
		word, isWord := lit.Elts[0].(*ast.BasicLit)
		code, isCode := lit.Elts[1].(*ast.BasicLit)
		if isWord && isCode {
			words++
			if w := strings.Trim(word.Value, `"`); !strings.Contains(rows[code.Value], "`"+w+"`") {
				t.Errorf("the row of exit code %s lacks %s", code.Value, w)
			}
		}
		return true
	})
	if words < 10 || len(rows) != len(numbers) {
		t.Errorf("%d error codes, %d exit codes, %d rows", words, len(numbers), len(rows))
	}
}

// examples are the blocks of a page that show a terminal.
var examples = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// Every `$ ` line of a console block is run, a page in one shell and one
// scratch repository, and prints what the page says. Ids are counted, and times
// and the repository's place fixed, before they are compared; a line of three
// dots stands for any lines.
// -update rewrites the output.
func TestExamplesRun(t *testing.T) {
	bin := buildVizier(t)
	for name, text := range readPages(t) {
		blocks := examples.FindAllStringSubmatch(text, -1)
		if len(blocks) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("sbatch"); err != nil && strings.Contains(text, "slurm-cluster.sh") {
				t.Skip("no Slurm here: scripts/slurm-cluster.sh install")
			}
			if _, err := exec.LookPath("jq"); err != nil && strings.Contains(text, "examples/executors/slurm bin") {
				t.Skip("no jq here: apt-get install jq")
			}
			var commands, expected []string
			for _, b := range blocks {
				c, e := parseExample(b[1])
				commands, expected = append(commands, c...), append(expected, e...)
			}
			got := runExample(t, bin, commands)
			if len(got) != len(commands) {
				t.Fatalf("%d answers to %d commands: %q", len(got), len(commands), got)
			}
			for i, c := range commands {
				if matches(timeless(c, expected[i]), timeless(c, got[i])) {
					got[i] = expected[i]
				} else if !*update {
					t.Errorf("$ %s\nprints\n%swant\n%s", c, got[i], expected[i])
				}
			}
			if *update {
				next := 0
				text = examples.ReplaceAllStringFunc(text, func(block string) string {
					c, _ := parseExample(examples.FindStringSubmatch(block)[1])
					var b strings.Builder
					for _, line := range c {
						b.WriteString("$ " + strings.ReplaceAll(line, "\n", "\n> ") + "\n" + got[next])
						next++
					}
					return "```console\n" + b.String() + "```"
				})
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// parseExample splits a block into commands and what each prints.
func parseExample(block string) (commands, outputs []string) {
	for line := range strings.Lines(block) {
		last := len(commands) - 1
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			commands, outputs = append(commands, strings.TrimSuffix(c, "\n")), append(outputs, "")
		} else if more, ok := strings.CutPrefix(line, "> "); ok && outputs[last] == "" {
			commands[last] += "\n" + strings.TrimSuffix(more, "\n")
		} else {
			outputs[last] += line
		}
	}
	return commands, outputs
}

// timeless returns what a command printed, with one duration for all and one
// time of the day where it shows jobs as people see them, whose columns are as
// wide as what stands in them.
func timeless(command, output string) string {
	if strings.Contains(command, "vizier simulate") {
		output = regexp.MustCompile(`(?:[A-Z][a-z]+ \d+ )?\b\d\d:\d\d\b`).ReplaceAllString(output, "12:00")
		return regexp.MustCompile(`(\S)  +`).ReplaceAllString(output, "$1  ")
	}
	if !shows.MatchString(command) {
		return output
	}
	output = regexp.MustCompile(`\b(?:\d+m)?\d+s\b`).ReplaceAllString(output, "0s")
	output = regexp.MustCompile(`(?:\b[A-Z][a-z]{2} \d+ )?\b\d\d:\d\d(:\d\d)?\b`).ReplaceAllString(output, "12:00")
	return regexp.MustCompile(`(\S)  +`).ReplaceAllString(output, "$1  ")
}

var shows = regexp.MustCompile(`vizier (?:status|ls|runs|jobs)$|vizier (?:ls|runs|list|show|events|history|jobs (?:list|events|effects))\b`)

func matches(want, got string) bool {
	pattern := regexp.QuoteMeta(want)
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.\n`).ReplaceAllString(pattern, `(?s:.*)`)
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(got)
}

var (
	jobIDs  = regexp.MustCompile(`(?:\b|\b(?:run|pln)_)[0-9a-f]{32}\b`) // and of runs and plans
	effects = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	moments = regexp.MustCompile(`20\d\d-\d\d-\d\dT[\d:.]+Z`)
	waits   = regexp.MustCompile(`(?m)^(Job \S+: \w+ for )\w+$`)
)

func runExample(t *testing.T, bin string, commands []string) []string {
	t.Helper()
	const mark = "\x01\n"
	script := "git init -q -b main . && git commit -q --allow-empty -m start\nexec 2>&1\n"
	for _, c := range commands {
		script += "printf '\\001\\n'\n" + c + "\n"
	}
	cmd := exec.Command("sh", "-c", script)
	dir, err := filepath.EvalSymlinks(disktest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	scripts, err := filepath.Abs("scripts")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Cleanup(func() { // a page that stopped halfway
		if _, err := os.Stat(home + "/lab"); err == nil {
			_ = exec.Command(scripts+"/slurm-cluster.sh", "down", home+"/lab").Run()
		}
	})
	cmd.Env = []string{"PATH=" + bin + ":" + scripts + ":" + withoutAgents(os.Getenv("PATH")), "HOME=" + home, "USER=ann", "VIZIER_SCHEDULER_MAX_RUNNING=4",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("the last command: %v", err)
	}
	seen := map[string]string{}
	text := jobIDs.ReplaceAllStringFunc(string(out), func(id string) string {
		if seen[id] == "" {
			kind := id[:len(id)-32]
			seen[id] = fmt.Sprintf("%s0199d3a4b5c670008%015x", kind, len(seen)+1)
		}
		return seen[id]
	})
	text = effects.ReplaceAllString(text, strings.Repeat("0", 64))
	text = strings.ReplaceAll(text, dir, "/home/ann/project")
	text = moments.ReplaceAllString(text, "2026-01-31T12:00:00Z")
	text = waits.ReplaceAllString(text, "${1}0s")
	return strings.Split(text, mark)[1:]
}

// The journal's page names every action that a journal may hold, and says of
// each whether another boot leaves it to be done.
func TestJournalPageHasEveryAction(t *testing.T) {
	page := readPages(t)["docs/formats/journal.md"]
	for _, a := range kernel.WorldActions() {
		row := regexp.MustCompile("(?m)^\\| `" + kernel.WorldActionName(a) + "` \\|.*\\| (yes|no) \\|$").FindStringSubmatch(page)
		if row == nil || (row[1] == "yes") != kernel.OutlastsBoot(a) {
			t.Errorf("%s: %q", kernel.WorldActionName(a), row)
		}
	}
}

// withoutAgents returns path without the directories that have agents: what
// this machine has installed is on no page.
func withoutAgents(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return slices.ContainsFunc([]string{"claude", "codex", "gemini"}, func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
	}), ":")
}

// The architecture page has every port of app in its table, and no other.
func TestPortsAreListed(t *testing.T) {
	ports := map[string]bool{}
	names, err := filepath.Glob("app/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && s.Name.IsExported() {
				_, ports["app."+s.Name.Name] = s.Type.(*ast.InterfaceType)
			}
			return true
		})
	}
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| for | ports |")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := 0
	for _, m := range regexp.MustCompile("`(app\\.[A-Za-z]+)`").FindAllStringSubmatch(table, -1) {
		if listed++; !ports[m[1]] {
			t.Errorf("%s is listed and no port", m[1])
		}
		delete(ports, m[1])
	}
	for name, port := range ports {
		if port {
			t.Errorf("%s is a port and not listed", name)
		}
	}
	if listed < 10 {
		t.Errorf("%d ports are listed", listed)
	}
}

// The glossary has each word once, in order.
func TestGlossaryIsInOrder(t *testing.T) {
	page, err := os.ReadFile("docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	before, words := "", 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|--") {
			continue
		}
		word := strings.ToLower(strings.TrimSpace(cells[1]))
		if words++; words > 1 && before >= word && before != "word" {
			t.Errorf("%q stands before %q", before, word)
		}
		before = word
	}
	if words < 50 {
		t.Errorf("%d words", words)
	}
}
