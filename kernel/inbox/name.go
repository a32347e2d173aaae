// Package inbox says what the files of an inbox mean: their names, the paths
// they lie at, what their front matter says, and which of them are ready. It is
// as pure as the kernel.
package inbox

import (
	"path"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// NameOf is the path of a prompt under name n: x.prompt.md becomes x.running.md,
// and where it is called something else the word comes before the extension.
func NameOf(n kernel.PromptName, prompt string) string {
	dir, file := path.Split(prompt)
	if stem, ok := strings.CutSuffix(file, ".prompt.md"); ok && stem != "" {
		return dir + stem + "." + n.String() + ".md"
	}
	ext := path.Ext(file)
	if ext == file {
		ext = ""
	}
	return dir + strings.TrimSuffix(file, ext) + "." + n.String() + ext
}

// PromptOf reads a file's name: the path that the prompt was dropped as, and
// which of its names this is. It is false for a file that is no prompt's.
func PromptOf(file string) (prompt string, n kernel.PromptName, ok bool) {
	for n := kernel.NewPrompt; n <= kernel.ErrorPrompt; n++ {
		if stem, ok := strings.CutSuffix(file, "."+n.String()+".md"); ok && stem != "" && !strings.HasSuffix(stem, "/") {
			return stem + ".prompt.md", n, true
		}
	}
	return "", 0, false
}

// Meant is what the name of a file that is no prompt's would be if it were to be
// one, where it looks as if somebody meant that; "" where it does not.
func Meant(name string) string {
	if _, _, ours := PromptOf(name); ours {
		return ""
	}
	for _, end := range []string{".prompt.md.txt", ".prompt.markdown", ".prompt.txt", ".prompt.md", ".prompt", ".markdown", ".md"} {
		if n := len(name) - len(end); n > 0 && strings.EqualFold(name[n:], end) {
			return name[:n] + ".prompt.md"
		}
	}
	return ""
}

// ReasonOf is the file that says why a prompt is called x.error.md.
func ReasonOf(prompt string) string {
	return strings.TrimSuffix(NameOf(kernel.ErrorPrompt, prompt), ".md") + ".txt"
}

// Home is the directory that holds the inbox and the trees beside it. It is ""
// where File and Rel do not belong together.
func Home(in *kernel.Prompt) string {
	inbox, ok := strings.CutSuffix(in.File, "/"+NameOf(kernel.RunningPrompt, in.Rel))
	if !ok || path.Base(inbox) != Dir {
		return ""
	}
	return path.Dir(inbox)
}

// The trees of an inbox, below its home (seed 004).
const (
	Dir          = "inbox"
	ProcessedDir = "processed"
	FinishedDir  = "finished"
	FailedDir    = "failed"
)

// Processed is where the copy of the prompt lies, below the home.
func Processed(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, ProcessedDir, id) + "/prompt.md"
}

// NoInput is the file that says there was no prompt to copy.
func NoInput(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, ProcessedDir, id) + "/NO_INPUT.md"
}

// Failed is where another copy lies after a failure, if they are archived.
func Failed(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, FailedDir, id) + "/" + path.Base(in.Rel)
}

func below(in *kernel.Prompt, tree string, id kernel.JobID) string {
	return strings.Join([]string{tree, in.Owner, in.Repository, in.Branch, string(id)}, "/")
}
