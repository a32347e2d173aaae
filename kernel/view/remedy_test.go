package view_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Every remedy has words of its own or a command, and there is no default that
// would tell a wrong one.
func TestEveryRemedyHasWords(t *testing.T) {
	said := map[string]kernel.RemedyKind{}
	k := kernel.RemedyKind(0)
	for ; !strings.Contains(k.String(), "("); k++ {
		command, text := view.Remedy(kernel.Remedy{Kind: k, Job: "j", Detail: "why", Pinned: kernel.PinnedHead{Branch: "b", Commit: "c"}})
		words := strings.Join(command, " ") + text
		if other, again := said[words]; words == "" || again {
			t.Errorf("%s: %q, as %s", k, words, other)
		}
		said[words] = k
	}
	if command, text := view.Remedy(kernel.Remedy{Kind: k}); len(command) > 0 || text != "" || k == 0 {
		t.Errorf("a kind that there is not: %v %q", command, text)
	}
}
