// Package inbox defines what the files of an inbox mean: their names, their
// paths, their front matter, and which of them are ready. It is as pure as the
// kernel.
package inbox

import (
	"path"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// NameOf returns the path of a prompt under name n: x.prompt.md becomes
// x.running.md. If the file name does not end in .prompt.md, the word is
// inserted before the extension.
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

// PromptOf parses a file's name into the path under which the prompt was
// dropped and the name it has now. ok is false for a file that is not a prompt.
func PromptOf(file string) (prompt string, n kernel.PromptName, ok bool) {
	for n := kernel.NewPrompt; n <= kernel.ErrorPrompt; n++ {
		if stem, ok := strings.CutSuffix(file, "."+n.String()+".md"); ok && stem != "" && !strings.HasSuffix(stem, "/") {
			return stem + ".prompt.md", n, true
		}
	}
	return "", 0, false
}

// Meant returns the name that a file should have had if it looks like a
// misnamed prompt, or else "". What is not UTF-8 in it becomes "_".
func Meant(name string) string {
	if _, _, ours := PromptOf(name); ours {
		return ""
	}
	for _, end := range []string{".prompt.md.txt", ".prompt.markdown", ".prompt.txt", ".prompt.md", ".prompt", ".markdown", ".md"} {
		if n := len(name) - len(end); n > 0 && strings.EqualFold(name[n:], end) {
			return strings.ToValidUTF8(name[:n], "_") + ".prompt.md"
		}
	}
	return ""
}

// ReasonOf returns the path of the file that says why the prompt failed, beside
// x.error.md.
func ReasonOf(prompt string) string {
	return strings.TrimSuffix(NameOf(kernel.ErrorPrompt, prompt), ".md") + ".txt"
}

// Home returns the directory that holds the inbox and the trees beside it, or
// "" if File and Rel do not match.
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

// Processed returns the path of the prompt's copy, relative to the home.
func Processed(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, ProcessedDir, id) + "/prompt.md"
}

// NoInput returns the path, relative to the home, of the file that says there
// was no prompt to copy.
func NoInput(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, ProcessedDir, id) + "/NO_INPUT.md"
}

// Failed returns the path, relative to the home, of the second copy that is
// made of failed prompts if they are archived.
func Failed(in *kernel.Prompt, id kernel.JobID) string {
	return below(in, FailedDir, id) + "/" + path.Base(in.Rel)
}

func below(in *kernel.Prompt, tree string, id kernel.JobID) string {
	return strings.Join([]string{tree, in.Owner, in.Repository, in.Branch, string(id)}, "/")
}
