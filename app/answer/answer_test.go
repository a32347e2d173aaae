package answer

import (
	"encoding/json"
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

// What a page shows of a document has no characters that nobody sees, and all others as they are.
func TestShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain \"quoted\" C:\\u202e\n\tend": "plain \"quoted\" C:\\u202e\n\tend",
		"a\u202eb\u2028c\u200bd":            `a\u202eb\u2028c\u200bd`,
		"\x1b[31m\r\b\x00\x7f\u009b":        `\x1b[31m\r\x08\x00\x7f\u009b`,
		"\U000e0041😀\U000e007f":             `\U000e0041😀\U000e007f`,
		"\xff\ufffd":                        "\ufffd\ufffd",
		"👩\u200d👧":                          "👩\u200d👧",
		"a\u200db c\u200d👧 👩\u200d":         `a\u200db c\u200d👧 👩\u200d`,
		"1\u200c\u0645 \u0645\u200c\u06cc":  "1\\u200c\u0645 \u0645\u200c\u06cc",
		"\u20ac\u200d\u20ac":                "\u20ac\\u200d\u20ac", // a sign of money, which joins nothing
	} {
		text, err := Shown(map[string]string{"is": in})
		var got map[string]string
		if err != nil || json.Unmarshal([]byte(text), &got) != nil || got["is"] != want {
			t.Errorf("%+q: %v: %s: %+q, want %+q", in, err, text, got["is"], want)
		}
	}
}

// Each line of a message says whose it is, and a terminal acts on none of it.
func TestMessage(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"open a\x1b]0;title\a:\tno": "vizier: open a\\x1b]0;title\\x07:\tno\n",
		"one\ntwo\r\n\n":            "vizier: one\nvizier: two\\r\n",
	} {
		if got := Message(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
