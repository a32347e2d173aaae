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
