package kernel

import (
	"fmt"
	"strings"
	"unicode"
)

// CheckContainer returns ErrInvalid if the task cannot run in the container
// that it asks for: the image's name is not one that could be passed to an
// engine, or a sandbox is required, which Vizier can enforce only for processes
// that it starts itself.
func (t *Task) CheckContainer() error {
	switch image := t.Container; {
	case image == "":
		return nil
	case strings.HasPrefix(image, "-") || strings.ContainsFunc(image, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("container %q: expected the name of an image, or the path of one, without spaces and with no hyphen before it: %w", image, ErrInvalid)
	case t.Sandbox.Mode == RequiredSandbox:
		return fmt.Errorf("container %s: a sandbox that is required cannot be enforced in a container, which another program makes: "+
			"leave out the container, or ask for a sandbox of best-effort: %w", image, ErrInvalid)
	default:
		return nil
	}
}
