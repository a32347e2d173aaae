package inbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// maxFront bounds a front matter, in bytes.
const maxFront = 64 << 10

// ParsePrompt parses a prompt into its front matter and the text below that.
func ParsePrompt(text string) (inbox.Front, string, error) {
	if err := inbox.ValidText(text); err != nil {
		return inbox.Front{}, "", err
	}
	front, body, err := inbox.SplitFront(text)
	if err != nil {
		return inbox.Front{}, "", err
	}
	doc, err := frontDocument(front)
	if err != nil {
		return inbox.Front{}, "", err
	}
	root, fields := doc.Content[0], map[string]any{}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i].Value
		reads, foreign := inbox.Reads(key)
		if !reads || root.Content[i].Kind != yaml.ScalarNode { // an alias has the name of its anchor as its value
			continue
		}
		if _, again := fields[key]; again {
			return inbox.Front{}, "", fmt.Errorf("front matter, line %d: %s stands twice: %w", root.Content[i].Line, key, kernel.ErrInvalid)
		}
		v, err := plain(root.Content[i+1], 0)
		if err != nil && foreign {
			continue
		}
		if err != nil {
			return inbox.Front{}, "", err
		}
		fields[key] = v
	}
	f, err := inbox.FrontOf(fields)
	return f, body, err
}

// frontDocument parses a front matter into a document of one mapping, which has no keys if it is
// empty.
func frontDocument(front string) (*yaml.Node, error) {
	if len(front) > maxFront {
		return nil, fmt.Errorf("the front matter has %d bytes, more than %d: %w", len(front), maxFront, kernel.ErrInvalid)
	}
	var doc, second yaml.Node
	// Put a line in place of the dashes, so that line numbers are those of the
	// prompt.
	dec := yaml.NewDecoder(strings.NewReader("\n" + front))
	empty := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) { // it has comments at most
		return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{empty}, HeadComment: strings.TrimSpace(front)}, nil
	} else if err != nil {
		return nil, fmt.Errorf("front matter: %s: %w", strings.TrimPrefix(err.Error(), "yaml: "), kernel.ErrInvalid)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		empty.HeadComment, empty.LineComment, empty.FootComment = root.HeadComment, root.LineComment, root.FootComment
		doc.Content[0] = empty
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("front matter, line %d: expected keys and values: %w", root.Line, kernel.ErrInvalid)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("front matter: a line that begins with three dashes begins another document, which nothing would read: remove it: %w", kernel.ErrInvalid)
	}
	return &doc, nil
}

// plain converts a node to strings and maps of strings. Anything else becomes
// something that FrontOf rejects.
func plain(n *yaml.Node, depth int) (any, error) {
	switch {
	case depth > 4:
		return nil, fmt.Errorf("front matter, line %d: too deep: %w", n.Line, kernel.ErrInvalid)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, nil
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.AliasNode:
		return nil, fmt.Errorf("front matter, line %d: an alias: write the value: %w", n.Line, kernel.ErrInvalid)
	case n.Kind != yaml.MappingNode:
		return n.Kind, nil
	}
	out := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, again := out[key.Value]; again || key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("front matter, line %d: %q stands twice, or is no name: %w", key.Line, key.Value, kernel.ErrInvalid)
		}
		v, err := plain(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out[key.Value] = v
	}
	return out, nil
}

// Stamp adds f to a prompt, under the key vizier, with the time and the source
// of its submission. All other keys, comments and the text stay as they are.
func Stamp(text string, f inbox.Front, at time.Time, source string) (string, error) {
	if _, _, err := ParsePrompt(text); err != nil {
		return "", err
	}
	front, body, _ := inbox.SplitFront(text) // as ParsePrompt did
	doc, _ := frontDocument(front)
	own := child(doc.Content[0], "vizier")
	for _, kv := range [][2]string{{"flow", f.Flow}, {"job_id", string(f.Job)}, {"owner", f.Owner}, {"repository", f.Repository},
		{"branch", f.Branch}, {"created_at", at.UTC().Format(time.RFC3339)}, {"source", source}} {
		if kv[1] != "" {
			put(own, kv[0], kv[1])
		}
	}
	if len(f.Set) > 0 {
		set := child(own, "set")
		for _, key := range slices.Sorted(maps.Keys(f.Set)) {
			put(set, key, f.Set[key])
		}
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("front matter: %w", err)
	}
	return "---\n" + string(out) + "---\n" + body, nil
}

// child returns the mapping below a key and adds it if it is missing.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == key && n.Content[i+1].Kind == yaml.MappingNode {
			return n.Content[i+1]
		}
	}
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, m)
	return m
}

func put(n *yaml.Node, key, value string) {
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: yaml.DoubleQuotedStyle}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, v)
}
