package answer

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
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

// Text for people has the escapes of Go for what a terminal would act on, but for the bytes that are kept.
func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, kept, want string }{
		{"plain ä日", "", "plain ä日"},
		{"a\tb\nc\rd", "", `a\tb\nc\rd`},
		{"a\tb\nc\rd", "\t\n", "a\tb\nc" + `\rd`},
		{"\x1b[0m\x7f\u009b\u202e\U000e0041", "", `\x1b[0m\x7f\u009b\u202e\U000e0041`},
		{"a\xffb\ufffd", "", `a\xffb` + "\ufffd"},
		{"a\xffb", "\xff", "a\xffb"},
		{"\t\xff", "\t\xff", "\t\xff"},
		{"\u200d👩\u200d👧", "", `\u200d` + "👩\u200d👧"},
	} {
		if got := Visible(c.in, c.kept); got != c.want {
			t.Errorf("%+q but %+q is %+q, want %+q", c.in, c.kept, got, c.want)
		}
	}
}

// A document is JSON in which nothing is escaped that need not be. What cannot be one is an error.
func TestJSON(t *testing.T) {
	if got, err := JSON(map[string]string{"a": "<b>&\U000e0041"}, " "); got != "{\n \"a\": \"<b>&\\udb40\\udc41\"\n}\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := JSON(func() {}, ""); err == nil {
		t.Error("a function is a document")
	}
	if _, err := Shown(func() {}); err == nil {
		t.Error("a function is shown")
	}
}

// An effect has its result unless it is only intended, and the result its time if that is on record.
func TestEffectsOf(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	j := &kernel.Job{ID: "a", Number: 3, Part: "p", State: kernel.State{Status: kernel.Failed}}
	failed := kernel.Result{Attempt: kernel.AttemptID{Job: "a", N: 2}, Outcome: kernel.OutcomeFailed, Exit: 4, Class: kernel.ExitFailure, Reason: "so it is"}
	ended := failed
	ended.Ended = at
	got, err := JSON(EffectsOf(j, []effect.Record{
		{Key: "k", Operation: "git.commit", Part: "one", Generation: 1, Attempt: 2, Begun: at, Result: ended},
		{Operation: "command.run", Attempt: 2, State: effect.Applied, Begun: at, Result: failed},
		{Operation: "command.run", Attempt: 2, State: effect.Committed, Begun: at, Result: ended},
	}).Effects, "")
	begun := `"begun_at":"2026-01-01T12:00:00Z","result":`
	result := `{"attempt":2,"outcome":"failed","exit_code":4,"failure_class":"` + kernel.ExitFailure.String() + `","failure_reason":"so it is","finished_at":`
	want := `[{"key":"k","operation":"git.commit","part":"one","generation":1,"attempt":2,"state":"intent",` + begun + `null},` +
		`{"operation":"command.run","generation":0,"attempt":2,"state":"applied",` + begun + result + `null}},` +
		`{"operation":"command.run","generation":0,"attempt":2,"state":"committed",` + begun + result + `"2026-01-01T12:00:00Z"}}]` + "\n"
	if got != want || err != nil {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if doc := EffectsOf(j, nil); doc.Effects == nil || doc.Job != "a" || doc.Ref != "3/p" || doc.Status != "failed" {
		t.Errorf("%+v", doc)
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
