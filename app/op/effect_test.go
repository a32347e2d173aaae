package op

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// The trailer of an effect joins the trailers of a message, and no other paragraph.
func TestTheTrailerOfAnEffect(t *testing.T) {
	for message, gap := range map[string]string{
		"subject": "\n\n", "subject\n": "\n\n", "Fix: no body": "\n\n",
		"subject\n\nSigned-off-by: Ann": "\n", "subject\n\nA-1: x\nz9: y\n\n": "\n", "subject\n\nbody\n\nZa: x": "\n",
		"subject\n\nNote to all: hello": "\n\n", "subject\n\nA: x\nno trailer": "\n\n", "subject\n\n: x": "\n\n",
		"subject\n\na/b: x": "\n\n", "subject\n\na:b: x": "\n\n", "subject\n\na@b: x": "\n\n", "subject\n\na[: x": "\n\n", "subject\n\na`: x": "\n\n", "subject\n\na{: x": "\n\n",
	} {
		if got, want := withEffect(message, "key"), strings.TrimRight(message, "\n")+gap+effect.Trailer+"key\n"; got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	for message, want := range map[string]string{
		effect.Trailer + "forged\n": "\n\n",
		"subject\n\n" + effect.Trailer + "forged\nA plan.\n  " + effect.Trailer + "forged\r\n\nA: x\n" + effect.Trailer + "forged": "subject\n\nA plan.\n\nA: x\n",
	} {
		if got := withEffect(message, "key"); got != want+effect.Trailer+"key\n" {
			t.Errorf("%q: %q", message, got)
		}
	}
}
