package vizier_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// unknown is a key that no table of a template has, put into each of them.
var unknown = map[string]string{
	"The file":            "zzz = 1\n",
	"cli":                 "[cli]\nzzz = 1\n",
	"policy":              "[policy]\nzzz = 1\n",
	"policy.dependencies": "[policy.dependencies]\nzzz = 1\n",
	"policy.resume":       "[policy.resume]\nzzz = 1\n",
	"artifact_contracts":  "[[artifact_contracts]]\nzzz = 1\n",
	"imports":             "[[imports]]\nzzz = 1\n",
	"links":               "[[links]]\nzzz = 1\n",
	"nodes":               "[[nodes]]\nzzz = 1\n",
	"nodes.after":         "[[nodes]]\nafter = [{ zzz = 1 }]\n",
	"nodes.on":            "[[nodes]]\non = { zzz = 1 }\n",
	"nodes.needs":         "[[nodes]]\nneeds = [{ zzz = 1 }]\n",
	"nodes.produces":      "[[nodes]]\nproduces = { zzz = 1 }\n",
	"nodes.locks":         "[[nodes]]\nlocks = [{ zzz = 1 }]\n",
	"nodes.preconditions": "[[nodes]]\npreconditions = [{ zzz = 1 }]\n",
	"nodes.gates":         "[[nodes]]\ngates = [{ zzz = 1 }]\n",
	"nodes.retry":         "[[nodes]]\nretry = { zzz = 1 }\n",
	"`{ slug, branch }`":  "[[nodes]]\nneeds = [{ plan_doc = { zzz = 1 } }]\n",
	"`{ name }`":          "[[nodes]]\nneeds = [{ target_branch = { zzz = 1 } }]\n",
	"`{ slug }`":          "[[nodes]]\nneeds = [{ merge_sentinel = { zzz = 1 } }]\n",
	"`{ job_id }`":        "[[nodes]]\nneeds = [{ command_patch = { zzz = 1 } }]\n",
	"`{ type_id, key }`":  "[[nodes]]\nneeds = [{ custom = { zzz = 1 } }]\n",
}

var (
	knownKeys = regexp.MustCompile("unknown key `zzz` in .*; known keys are (.*)")
	useRow    = regexp.MustCompile("(?m)^\\| `((?:cap|control)\\.[a-z_.]*)` \\|.*\\|([^|]*)\\|$")
	argument  = regexp.MustCompile("`([a-z_]+)`")
	firstCell = regexp.MustCompile(`(?m)^\| ([^|]*) \|`)
)

// The keys of each table of docs/user/templates.md are those that the program
// knows there, and what a node can use is its inventory.
func TestTemplateReference(t *testing.T) {
	page := readPages(t)["docs/user/templates.md"]
	vizier := filepath.Join(buildVizier(t), "vizier")
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	documented := map[string][]string{}
	for _, part := range strings.Split(page, "\n#")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		title = strings.Trim(title, "# `")
		for _, row := range firstCell.FindAllStringSubmatch(body, -1) {
			for _, s := range span.FindAllStringSubmatch(row[1], -1) {
				documented[title] = append(documented[title], s[1])
			}
		}
	}
	for title, text := range unknown {
		want := documented[title]
		if fields, ok := strings.CutPrefix(title, "`{ "); ok {
			if !strings.Contains(page, title) {
				t.Errorf("the page has no %s", title)
			}
			want = strings.Split(strings.TrimSuffix(fields, " }`"), ", ")
		}
		if err := os.WriteFile(filepath.Join(dir, "t.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(vizier, "run", "./t.toml", "--check")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		found := knownKeys.FindSubmatch(out)
		if err == nil || found == nil {
			t.Errorf("%s: %v\n%s", title, err, out)
			continue
		}
		keys := strings.Split(string(found[1]), ", ")
		slices.Sort(want)
		if !slices.Equal(keys, want) {
			t.Errorf("%s: the page has %q, the program %q", title, want, keys)
		}
	}
	var labels []string
	for _, u := range workflow.Inventory() {
		if !slices.Contains(labels, u.Label) {
			labels = append(labels, u.Label)
		}
	}
	for _, row := range useRow.FindAllStringSubmatch(page, -1) {
		var reads []string
		for _, u := range workflow.Inventory() {
			if u.Label == row[1] {
				reads = slices.Concat(reads, u.Args, u.AnyOf, u.OneOf, u.AllOrNone, []string{u.PathList})
			}
		}
		for _, arg := range argument.FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(reads, arg[1]) {
				t.Errorf("the page says that %s reads %s, which the inventory does not know", row[1], arg[1])
			}
		}
	}
	if got := documented["What a node can do"]; !slices.Equal(got, labels) {
		t.Errorf("the page has\n%q, the inventory\n%q", got, labels)
	}
}
