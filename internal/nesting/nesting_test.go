package nesting_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/nesting"
)

func TestTooDeep(t *testing.T) {
	dots, open := strings.Repeat("a.", 70), strings.Repeat("[", 70)
	for text, want := range map[string]int{
		"":                                       0,
		"[a]\n[" + dots + "b]\n":                 2,
		dots + "b = 1":                           1,
		"a = 1\n\nx = " + open:                   3,
		"a = " + strings.Repeat("{a=", 65):       1,
		"a = " + strings.Repeat("{a=", 64):       0,
		strings.Repeat("[a.b.c]\nx = 1.5\n", 99): 0,
		"a = [\n" + strings.Repeat("[1.5, 2.5],\n", 99) + "]":            0,
		"# " + dots + "\na = \"" + dots + "\\\"" + open + "\" # " + dots: 0,
		"a = '" + dots + "\\'\nb = " + open:                              2,
		"a = \"\"\"\n" + dots + "\"\"" + open + "\n\"\"\"\nb = " + open:  4,
		"a = '''\n" + open + "\n'''\nb = 1":                              0,
		"a = \"" + dots + "\nb = " + open:                                2,
		"a = '''" + open:                                                 0,
	} {
		if got := nesting.TooDeep(text); got != want {
			t.Errorf("%.60q…: line %d, want %d", text, got, want)
		}
	}
}
