package answer

import (
	"fmt"
	"testing"
)

// Nothing that a terminal acts on is left in a document, the last of the control
// characters included, and what is next to them is left as it is.
func TestPlain(t *testing.T) {
	for r := rune(0); r <= 0xff; r++ {
		want := string(r)
		if r != '\n' && r != '\t' && r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0xad { // soft hyphen: nobody sees it
			want = fmt.Sprintf(`\u%04x`, r)
		}
		if got := Plain(string(r)); got != want {
			t.Errorf("%U is %q, want %q", r, got, want)
		}
	}
}
