package main

import (
	"bytes"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

// A job's output keeps its colours on a terminal but loses all other sequences,
// however it is split into writes; without colours it loses both.
func TestLogsOnATerminal(t *testing.T) {
	for _, c := range []struct{ in, shown, stripped string }{
		{"plain\ttext\r\nnext\n", "plain\ttext\nnext\n", "plain\ttext\nnext\n"},
		{"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\x1b[0m\n", "red\n"},
		{"\x1b[1;38:5:9mred", "\x1b[1;38:5:9mred\x1b[0m", "red"},
		{"\x1b[38;5;8mgrey\x1b[48;2;8;8;8mon grey\x1b[1;38:5:8;4:3m", "\x1b[38;5;8mgrey\x1b[48;2;8;8;8mon grey\x1b[1;38:5:8;4:3m\x1b[0m", "greyon grey"},
		{"a\x1b[8mhidden", `a\x1b[8mhidden`, "ahidden"},
		{"\x1b[1;08;31mhidden\x1b[38;5;8;8mtoo\x1b[38;8mtoo", `\x1b[1;08;31mhidden\x1b[38;5;8;8mtoo\x1b[38;8mtoo`, "hiddentootoo"},
		{"\x1b[31mred\nplain\n", "\x1b[31mred\x1b[0m\nplain\n", "red\nplain\n"},
		{"\x1b[2Jgone\x1b[H", `\x1b[2Jgone\x1b[H`, "gone"},
		{"\x1b[?25l\x1b[>4m", `\x1b[?25l\x1b[>4m`, ""},
		{"\x1b]0;title\atext", `\x1b]0;title\x07text`, "text"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", `\x1b]8;;http://x\x1b\link\x1b]8;;\x1b\`, "link"},
		{"\x1bPq\x1b[31m\x1b\\x", "\\x1bPq\x1b[31m\\x1b\\x\x1b[0m", "Pqx"},
		{"\x1bcreset\x1b(B", `\x1bcreset\x1b(B`, "reset"},
		{"10%\r20%\b\a", `10%\r20%\x08\x07`, "10%20%"},
		{"\u009b31mC1 \u202etext\u2066", `\u009b31mC1 \u202etext\u2066`, "31mC1 text"},
		{"\xff32\xfe\x9b", `\xff32\xfe\x9b`, "32"},
		{"end\x1b[3", `end\x1b[3`, "end"},
		{"می\u200cخواهم 👩🏽\u200d🚀 क्\u200dष\n", "می\u200cخواهم 👩🏽\u200d🚀 क्\u200dष\n", "می\u200cخواهم 👩🏽\u200d🚀 क्\u200dष\n"},
		{"a\u200db é\u200d\u200dé é\u200c", `a\u200db é\u200d\u200dé é\u200c`, "ab éé é"},
		{"smörgås 漢字 😀\n", "smörgås 漢字 😀\n", "smörgås 漢字 😀\n"},
	} {
		for piece := 1; piece <= len(c.in); piece++ {
			for strip, want := range map[bool]string{false: c.shown, true: c.stripped} {
				var out bytes.Buffer
				u := &ui{out: &out, outTTY: true, strip: strip}
				for at := 0; at < len(c.in); at += piece {
					if _, err := io.WriteString(u.logs(), c.in[at:min(len(c.in), at+piece)]); err != nil {
						t.Fatal(err)
					}
				}
				if err := u.close(); err != nil || out.String() != want {
					t.Errorf("%q in pieces of %d, strip %v: %q %v, want %q", c.in, piece, strip, out.String(), err, want)
				}
			}
		}
	}
}

// Into a file or a pipe output goes byte by byte, unless --no-ansi is given.
func TestLogsIntoAPipe(t *testing.T) {
	const in = "\x1b[31m\x1b[2J\xff\r\u202e"
	for _, c := range []struct {
		g    globals
		want string
	}{{globals{}, in}, {globals{NoANSI: true}, ""}} {
		var out bytes.Buffer
		u := newUI(&checkedWriter{Writer: &out}, io.Discard, environment{"NO_COLOR=1"})
		u.configure(c.g)
		if _, err := io.WriteString(u.logs(), in); err != nil || u.close() != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%+v: %q", c.g, out.String())
		}
	}
}

// Nothing that is made visible is hidden again by being shown twice, and nothing
// of it is left for a terminal.
func TestPlain(t *testing.T) {
	r := drawtest.Of(t)
	letters := []rune(hostile + "\t\n\\aé漢😀\u2028\u0600\u200c\u200d\u200dмक्😀\u2800\u2800⠁\ufe0f\ufe0f❤\u034f\u3164\u115f\u1160\u1161\u11a81\u20e3᠊\u180b")
	for range 2000 {
		var b []byte
		for range r.IntN(20) {
			if r.IntN(8) == 0 {
				b = append(b, byte(r.IntN(256)))
			} else {
				b = append(b, string(letters[r.IntN(len(letters))])...)
			}
		}
		once := visible(string(b), "")
		seen := []rune("\n" + once + "\n")
		for i, c := range seen {
			if c != '\n' && answer.Unseen(c) && !answer.Joined(seen[i-1], c, seen[i+1]) {
				t.Fatalf("%q leaves %U", b, c)
			}
		}
		if visible(once, "") != once || plain(plain(string(b))) != plain(string(b)) {
			t.Fatalf("%q is not the same twice", b)
		}
	}
	if got := coloured(plain(colourOn + "31" + colourOff + "x" + colourOn + "2J" + colourOff + colourOn)); got != "\x1b[31mx\\xff2J\\xfe\\xff" {
		t.Errorf("%q", got)
	}
	for in, want := range map[string]string{"👩\u200d👩\u200d👧": "👩\u200d👩\u200d👧", "می\u200cخواهم": "می\u200cخواهم", "क्\u200dष": "क्\u200dष", "🏳\ufe0f\u200d🌈": "🏳\ufe0f\u200d🌈",
		"❤\ufe0f 1\ufe0f\u20e3 ‼\ufe0f ↔\ufe0f 葛\U000e0101 ᠠ\u180b": "❤\ufe0f 1\ufe0f\u20e3 ‼\ufe0f ↔\ufe0f 葛\U000e0101 ᠠ\u180b", "⠓⠑\u2800⠇": "⠓⠑\u2800⠇", "\u115f\u1161 \u1100\u1160\u11a8 한글": "\u115f\u1161 \u1100\u1160\u11a8 한글", "ב\u05bc\u034f\u05b7": "ב\u05bc\u034f\u05b7", "\u0600\u0661 ประเทศไทย ខ្មែរ": "\u0600\u0661 ประเทศไทย ខ្មែរ",
		"build\ufe0f": `build\ufe0f`, "é\ufe0f": `é\ufe0f`, "1\ufe0f2": `1\ufe0f2`, "a\u3164b": `a\u3164b`, "ㄱ\u3164ㄴ\uffa0": `ㄱ\u3164ㄴ\uffa0`, "a\u2800b": `a\u2800b`, "\u2800\u2800⠁\u2800": `\u2800\u2800` + "⠁" + `\u2800`, "a\u115f\u1160b": `a\u115f\u1160b`, "é\u034fé": `é\u034fé`, "ខ\u17b4": `ខ\u17b4`, "❤\ufe0f\ufe0f": "❤\ufe0f" + `\ufe0f`, "a\ufe0f\u200dé": `a\ufe0f\u200dé`,
		"dep\u200dloy": `dep\u200dloy`, "\u200dé": `\u200dé`, "é\u200c\u200cé": `é\u200c\u200cé`, "é\u200c": `é\u200c`, "é\u202eé": `é\u202eé`, "é\u200bé": `é\u200bé`, "é\u200d\xff": `é\u200d\xff`} {
		if got := visible(in, ""); got != want {
			t.Errorf("%+q: %+q", in, got)
		}
		if got := answer.Plain(`"` + in + `"`); utf8.ValidString(in) && got != `"`+want+`"` {
			t.Errorf("%+q as JSON: %+q", in, got)
		}
	}
	if got, want := answer.Plain("{\"a\":\"\u202e\u009b\U000e0041é\"}\n"), `{"a":"\u202e\u009b\udb40\udc41é"}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
