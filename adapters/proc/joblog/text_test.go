package joblog

import "testing"

func TestText(t *testing.T) {
	for line, want := range map[string]string{
		"plain":                           "plain",
		"\x1b[31m1 failed\x1b[0m in 0.1s": "1 failed in 0.1s",
		"\x1b[0m":                         "",
		"\x1b[2K\x1b[1A":                  "",
		" 10%\r 50%\r100% done\r":         "100% done",
		"10%\r\x1b[K\r  ":                 "10%",
		"\x1b]0;title\x07shown":           "shown",
		"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\": "link",
		"ende: größer → ✓":                         "ende: größer → ✓",
		"cut \x1b[3":                               "cut",
		"cut \x1b":                                 "cut",
		"\x1b(Bset":                                "set",
		"bad \xff byte":                            "bad \ufffd byte",
		"\r\r":                                     "",
	} {
		if got := Text([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// A sequence sets a colour if it does nothing else, and does not hide the text after it.
func TestSequence(t *testing.T) {
	for text, want := range map[string]struct {
		n      int
		colour bool
	}{
		"\x1b[31mx": {5, true}, "\x1b[mx": {3, true}, "\x1b[1;4:3mx": {8, true}, "\x1b[38;5;8mx": {9, true}, "\x1b[38;2;8;8;8mx": {13, true}, "\x1b[48;2;8;8;8;1mx": {15, true},
		"\x1b[08mx": {5, false}, "\x1b[8mx": {4, false}, "\x1b[1;8mx": {6, false}, "\x1b[38;5;1;8mx": {11, false}, "\x1b[38;2;1;2;3;8mx": {15, false}, "\x1b[58;5;1;08mx": {12, false}, "\x1b[38;8mx": {7, false},
		"\x1b[38mx": {5, true}, "\x1b[38;5mx": {7, true}, "\x1b[38;05;8mx": {10, true}, "\x1b[38;2;8;8;8;8mx": {15, false}, "\x1b[48;2mx": {7, true}, "\x1b[38;02;8;8;8mx": {14, true}, "\x1b[38;3;8mx": {9, false}, "\x1b[38;2;8mx": {9, true},
		"\x1b[@x": {3, false}, "\x1b[~x": {3, false}, "\x1b[ mx": {4, false}, "\x1b@x": {2, false}, "\x1b~x": {2, false}, "\x1bXt\ax": {4, false}, "\x1b^t\ax": {4, false}, "\x1b_\ax": {3, false}, "\x1bP\x1b\\x": {4, false}, "\x1b]t\x1bx": {1, false},
		"\x1b[31Kx": {5, false}, "\x1b[?1mx": {5, false}, "\x1bMx": {2, false}, "\x1b(Bx": {3, false}, "\x1b]0;t\ax": {6, false}, "\x1b]0;t\x1b\\x": {7, false}, "\x1b]0;t\n": {1, false},
		"\x1b": {0, false}, "\x1b[": {0, false}, "\x1b[3": {0, false}, "\x1b]0;t": {0, false}, "\x1b]0;t\x1b": {0, false}, "\x1b\x01": {1, false}, "\x1b[\x7f": {1, false}, "\x1b[\u00e9": {1, false},
	} {
		if n, colour := Sequence([]byte(text)); n != want.n || colour != want.colour {
			t.Errorf("%q: %d, %v, want %d, %v", text, n, colour, want.n, want.colour)
		}
	}
}
