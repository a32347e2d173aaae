package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// The scripts run `vizier __complete WORD...` to complete the last word. It
// prints one candidate per line, followed by a tab and its meaning.
var (
	//go:embed completions/vizier.bash
	bashScript string
	//go:embed completions/vizier.zsh
	zshScript string
	//go:embed completions/vizier.fish
	fishScript string
)

type completionsCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (*completionsCmd) Help() string {
	return "bash: source <(vizier completions bash). zsh: the same, after compinit. fish: vizier completions fish | source."
}

// Run prints the script.
func (s *completionsCmd) Run(c *call) error {
	c.ui.text(map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[s.Shell])
	return nil
}

// candidate is one completion.
type candidate struct{ text, about string }

// complete prints the candidates for the last of words that can be typed: it leaves out a name with
// characters that are not seen. It never fails, because a completing shell cannot show an error.
func (c *call) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	if _, err := c.whole(); err != nil {
		return err
	}
	for _, x := range c.candidates(words) {
		if visible(x.text, "") == x.text {
			c.ui.print(strings.TrimSuffix(x.text+"\t"+visible(x.about, ""), "\t"))
		}
	}
	return nil
}

func (c *call) candidates(words []string) []candidate {
	last := words[len(words)-1]
	node, pending, given := c.model.Node, (*kong.Flag)(nil), []string(nil)
	for _, w := range words[:len(words)-1] {
		switch next := child(node, w); {
		case pending != nil:
			pending = nil
		case w == "--":
			return nil // a user's own command follows
		case strings.HasPrefix(w, "-"):
			if f := flagOf(node, w); f != nil && !f.IsBool() && !f.IsCounter() && !strings.Contains(w, "=") {
				pending = f
			}
		case next != nil:
			node = next
		default:
			given = append(given, w)
		}
	}
	switch name, value, assigned := strings.Cut(last, "="); {
	case pending != nil:
		return matching(c.values(node, pending.Value, nil), last)
	case assigned && strings.HasPrefix(name, "--"):
		if f := flagOf(node, name); f != nil {
			return prefixed(name+"=", matching(c.values(node, f.Value, nil), value))
		}
		return nil
	case strings.HasPrefix(last, "-"):
		out := flagsOf(node)
		if len(given) > 0 && slices.Contains(flowCommands, node.Name) {
			out = append(out, c.parameters(given[0])...)
		}
		return matching(out, last)
	}
	out := commands(node)
	if n := len(node.Positional); n > 0 {
		p := node.Positional[min(len(given), n-1)]
		if len(given) < n || p.IsCumulative() {
			out = append(out, c.values(node, p, given)...)
		}
	}
	return slices.DeleteFunc(matching(out, last), func(x candidate) bool { return strings.HasPrefix(x.text, "-") }) // a name that would be a flag
}

// commands returns the commands below node.
func commands(node *kong.Node) (out []candidate) {
	for _, n := range node.Children {
		if !n.Hidden {
			out = append(out, candidate{n.Name, n.Help})
		}
	}
	return out
}

// child returns the command of that name below node.
func child(node *kong.Node, name string) *kong.Node {
	for _, n := range node.Children {
		if n.Name == name || slices.Contains(n.Aliases, name) {
			return n
		}
	}
	return nil
}

// flagOf returns the flag called word of node, of one of its parents or of the command that it stands for by itself.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
				return f
			}
		}
	}
	if node.DefaultCmd != nil {
		return flagOf(node.DefaultCmd, word)
	}
	return nil
}

func flagsOf(node *kong.Node) []candidate {
	var out []candidate
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			out = append(out, candidate{"--" + f.Name, f.Help})
		}
	}
	return out
}

// values returns the candidates for the value of a flag, or of an argument after those given. The
// name of the flag or argument determines them.
func (c *call) values(node *kong.Node, v *kong.Value, given []string) []candidate {
	var out []candidate
	switch {
	case v.Enum != "":
		for e := range strings.SplitSeq(v.Enum, ",") {
			if e != "" {
				out = append(out, candidate{text: e})
			}
		}
	case v.Name == "agent":
		for _, name := range append(agent.Known(), agent.Builtin) {
			out = append(out, candidate{text: name})
		}
	case v.Flag != nil && strings.HasPrefix(v.Flag.PlaceHolder, "JOB"):
		return c.jobCandidates(v.Name)
	case v.Name == "job":
		return c.jobCandidates(node.Name)
	case v.Name == "run" && node.Name != "run":
		return c.runCandidates()
	case v.Name == "status":
		return statusCandidates()
	case v.Name == "plan" && node.Name == "cd":
		return c.plans()
	case v.Name == "flow":
		return c.aliases()
	case v.Name == "topic":
		return c.topicCandidates(given)
	case v.Name == "fields":
		all := view.ListFields()
		switch {
		case node.Name == "show":
			all = view.ShowFields()
		case node.Name == "plans":
			all = planFields()
		}
		for _, f := range all {
			out = append(out, candidate{f.Key, f.Label})
		}
	}
	return out
}

// topicCandidates returns what there is help on: topics and commands, or the commands below the one
// that is given.
func (c *call) topicCandidates(given []string) (out []candidate) {
	node := c.model.Node
	for _, word := range given {
		if node = child(node, word); node == nil {
			return nil
		}
	}
	if len(given) == 0 {
		for _, t := range topics() {
			out = append(out, candidate{text: t})
		}
	}
	return append(out, commands(node)...)
}

// jobCandidates returns the references of the jobs that a command may be used
// on, newest first.
func (c *call) jobCandidates(command string) []candidate {
	r, err := c.repo()
	if err != nil {
		return nil
	}
	snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{All: true})
	if err != nil {
		return nil
	}
	name, out := label(snap), []candidate{}
	decides := command == "approve" || command == "reject"
	for _, row := range view.ListOf(snap, view.ListOptions{All: true}).Rows {
		if !decides || row.Status == kernel.WaitingOnApproval {
			out = append(out, candidate{name(row.ID), fmt.Sprintf("%s %s", row.Status, row.Text("name"))})
		}
	}
	if decides {
		return out
	}
	out = append(append(out, runsOf(snap)...), nameCandidates(snap)...)
	return append(out, candidate{"@last", "the newest job"})
}

// nameCandidates returns the names that identify a single job.
func nameCandidates(snap *kernel.Snapshot) (out []candidate) {
	var names []string
	f := view.NewFinder(snap)
	for _, j := range snap.Jobs() {
		names = append(names, j.Spec.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if t, err := f.Find(name); name != "" && err == nil && len(t.Jobs) == 1 {
			out = append(out, candidate{name, t.Jobs[0].State.Status.String() + " " + t.Jobs[0].Ref()})
		}
	}
	return out
}

// runCandidates returns the runs, newest first.
func (c *call) runCandidates() []candidate {
	r, err := c.repo()
	if err != nil {
		return nil
	}
	snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{All: true})
	if err != nil {
		return nil
	}
	return runsOf(snap)
}

func runsOf(snap *kernel.Snapshot) (out []candidate) {
	for _, run := range view.RunsOf(snap) {
		if run.Ref != "" {
			out = append(out, candidate{run.Ref, run.Status + " " + run.Name + " " + run.Progress()})
		}
	}
	return out
}

// statusCandidates returns the values of a list's --status.
func statusCandidates() []candidate {
	out := []candidate{{"open", "what has not ended"}}
	for _, st := range kernel.Statuses() {
		out = append(out, candidate{view.ShortStatus(st), ""}, candidate{st.String(), ""})
	}
	slices.SortFunc(out, func(a, b candidate) int { return strings.Compare(a.text, b.text) })
	return slices.CompactFunc(out, func(a, b candidate) bool { return a.text == b.text })
}

// aliases returns the templates that have a short name.
func (c *call) aliases() []candidate {
	r, err := c.repo()
	if err != nil {
		return nil
	}
	var out []candidate
	for _, s := range r.Config.Settings() {
		if name, ok := strings.CutPrefix(s.Key, "commands."); ok {
			out = append(out, candidate{name, fmt.Sprint(s.Value)})
		}
	}
	for _, n := range r.Named() {
		out = append(out, candidate{n.Name, filepath.ToSlash(n.Path)})
	}
	return out
}

// parameters returns the flags that a template adds to the command that runs
// it.
func (c *call) parameters(name string) []candidate {
	r, err := c.repo()
	if err != nil {
		return nil
	}
	_, src, err := c.load(r, name)
	if err != nil {
		return nil
	}
	var out []candidate
	for _, p := range src.Params {
		out = append(out, candidate{flagName(p), "parameter of " + name})
	}
	for _, a := range src.CLI.Named {
		out = append(out, candidate{flagName(a), "parameter of " + name})
	}
	return out
}

// matching returns the candidates that begin with word.
func matching(in []candidate, word string) []candidate {
	return slices.DeleteFunc(in, func(x candidate) bool { return !strings.HasPrefix(x.text, word) })
}

func prefixed(prefix string, in []candidate) []candidate {
	for i := range in {
		in[i].text = prefix + in[i].text
	}
	return in
}
