package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// maxText is the maximum length of an agent's answer and of a prompt, in bytes:
// far more than any model reads.
const maxText = 8 << 20

// promptResolve makes the prompt of an agent from the text or file that the
// arguments name, with the placeholders of seed 000's prompts filled in, or
// from the output of the arguments' script.
func promptResolve(ctx context.Context, env *Env, n *Node) (Result, error) {
	products, err := n.customProducts()
	if err != nil {
		return Result{}, err
	}
	if len(products) != 1 {
		return Result{}, fmt.Errorf("expected one artifact prompt_text among what it produces, found %d: %w", len(products), kernel.ErrInvalid)
	}
	raw, r, err := promptSource(ctx, env, n)
	if err != nil || r.Outcome != kernel.NoOutcome {
		return r, err
	}
	text, err := raw.render(n)
	if err != nil {
		return Result{}, err
	}
	if len(text) > maxText {
		return Result{}, fmt.Errorf("the prompt is longer than %d bytes", maxText)
	}
	if err := writeText(env, n, products[0], text, nil); err != nil {
		return Result{}, err
	}
	return ok(fmt.Sprintf("prompt of %d bytes%s", len(text), raw.from)), nil
}

// source is a prompt before its placeholders are filled in.
type source struct {
	text   string
	author bool   // the text was written as a prompt; otherwise it is data, in which nothing is a placeholder
	from   string // where a file was read, as the end of a phrase; "": there is none
}

func (s source) render(n *Node) (string, error) {
	if !s.author {
		return s.text, nil
	}
	return render(n, s.text)
}

// promptSource returns the source of n's prompt. A Result with an outcome ends
// the node.
func promptSource(ctx context.Context, env *Env, n *Node) (source, Result, error) {
	if text := n.Args["prompt_text"]; strings.TrimSpace(text) != "" {
		return source{text: text, author: true}, Result{}, nil
	}
	if path := n.arg("prompt_file"); path != "" {
		text, from, err := n.readFile(path)
		if errors.Is(err, iofs.ErrNotExist) {
			err = missingInput("prompt file %s is neither in %s nor in the main checkout; `vizier init` writes the shipped prompts", path, n.Dir)
		}
		return source{text, true, from}, Result{}, err
	}
	script := n.arg("command", "script")
	if script == "" {
		return source{}, Result{}, missingInput("no prompt: set prompt_text, prompt_file, command or script")
	}
	before := logEnds(env, n)
	out, exit, err := env.Shell.Output(ctx, n.Dir, script, nil, maxText)
	env.hears(ctx, n, exit, before)
	switch {
	case err != nil:
		return source{}, Result{}, err
	case exit != 0:
		return source{}, failed(exit, "the prompt's script %s", ended(exit)), nil
	case len(out) > maxText:
		return source{}, Result{}, fmt.Errorf("the prompt's script printed more than %d bytes", maxText)
	}
	return source{text: string(out)}, Result{}, nil
}

// readFile reads a file of the execution root. A file in Vizier's own directory
// that does not exist there is read from the main checkout, where it may be
// uncommitted: after `vizier init`, its prompts are on no branch yet. from says
// where it was, and whether the main checkout has another.
func (n *Node) readFile(path string) (text, from string, err error) {
	from = ", from " + path
	if filepath.IsAbs(path) {
		text, err = readRegular(path)
		return text, from, err
	}
	const ofCheckout = " of the checkout"
	text, err = readRegular(filepath.Join(n.Dir, path))
	if errors.Is(err, iofs.ErrNotExist) && strings.HasPrefix(filepath.ToSlash(filepath.Clean(path)), ".vizier/") {
		text, err = readRegular(filepath.Join(n.Root, path))
		return text, from + ofCheckout, err
	}
	if n.Dir == n.Root {
		return text, from + ofCheckout, err
	}
	from += " of " + cmp.Or(n.Job.State.Context.Branch, "the worktree")
	if other, err := readRegular(filepath.Join(n.Root, path)); err == nil && other != text {
		from += "; that of the checkout differs"
	}
	return text, from, err
}

// openRegular opens a regular file. It does not block on a named pipe.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), f.Close())
	}
	return f, nil
}

// readRegular reads a regular file of a bounded size.
func readRegular(path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(b) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxText)
	}
	return string(b), err
}

// render replaces each {{KEY}} once. KEY is an argument of the node,
// NODE.ARGUMENT for one of another node, execution_root, file:PATH, or "TEXT"
// for text that would otherwise be a placeholder. Inserted text is not scanned
// again. Of more than two braces in a row the last two count.
func render(n *Node, text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		more := strings.TrimLeft(rest, "{")
		b.WriteString(rest[:len(rest)-len(more)])
		end := "}}"
		if strings.HasPrefix(more, `"`) {
			end = `"}}`
		}
		key, after, closed := strings.Cut(more, end)
		if literal, quoted := strings.CutPrefix(key, `"`); quoted && closed {
			b.WriteString(literal)
			text = after
			continue
		}
		if !closed {
			return "", errors.New("found unclosed placeholder; expected `}}`")
		}
		if key = strings.TrimSpace(key); key == "" {
			return "", errors.New("found empty placeholder `{{}}`")
		}
		value, err := n.placeholder(key)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		if b.Len() > maxText {
			return "", fmt.Errorf("the prompt is longer than %d bytes", maxText)
		}
		text = after
	}
}

func (n *Node) placeholder(key string) (string, error) {
	if path, isFile := strings.CutPrefix(key, "file:"); isFile {
		text, _, err := n.readFile(strings.TrimSpace(path))
		if errors.Is(err, iofs.ErrNotExist) {
			return "", missingInput("placeholder `{{%s}}`: there is no such file in %s", key, n.Dir)
		}
		return text, err
	}
	if key == "execution_root" {
		return n.Dir, nil
	}
	if v, ok := n.Args[key]; ok {
		return v, nil
	}
	for at := len(key) - 1; at > 0; at-- {
		if key[at] != '.' {
			continue
		}
		args, err := n.argsOf(key[:at])
		if err != nil {
			return "", err
		}
		if v, ok := args[key[at+1:]]; ok {
			if v == "" && key[at+1:] == "branch" {
				v = n.Job.Spec.Origin.Branch // the plan's own branch, if no other is named
			}
			return v, nil
		}
	}
	return "", &classed{kernel.DataError, fmt.Errorf("unresolved placeholder `{{%s}}`: it is not an argument of this node, "+
		"NODE.ARGUMENT, execution_root or file:PATH", key)}
}

// argsOf returns the arguments of the node of this run called name: by its
// whole id, by its id within the same stage, or by its id within any other
// stage if that is unique.
func (n *Node) argsOf(name string) (map[string]string, error) {
	if other, ok := n.Manifest.Nodes[name]; ok {
		return other.Args, nil
	}
	for stage := n.ManifestNode.Node; ; {
		at := strings.LastIndex(strings.TrimSuffix(stage, "__"), "__")
		if at < 0 {
			break
		}
		stage = stage[:at+len("__")]
		if other, ok := n.Manifest.Nodes[stage+name]; ok {
			return other.Args, nil
		}
	}
	var found map[string]string
	for id, other := range n.Manifest.Nodes {
		if !strings.HasSuffix(id, "__"+name) {
			continue
		}
		if found != nil {
			return nil, &classed{kernel.DataError, fmt.Errorf("placeholder node `%s` is in more than one stage: give its whole id", name)}
		}
		found = other.Args
	}
	return found, nil
}
