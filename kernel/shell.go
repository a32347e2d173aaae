package kernel

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellQuote returns text quoted as one word of a POSIX shell.
func ShellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// CommandLine returns the words of a command on one line, for people, who can paste it into a shell. It quotes a word that a
// shell would not take as it is, and writes one with characters that nobody sees as $'…', which bash, ksh and zsh know.
func CommandLine(words ...string) string {
	out := make([]string, len(words))
	for i, word := range words {
		switch {
		case !utf8.ValidString(word) || strings.ContainsFunc(word, unseen):
			quoted := strconv.QuoteToASCII(word)
			out[i] = "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
		case word == "" || strings.ContainsFunc(word, special):
			out[i] = ShellQuote(word)
		default:
			out[i] = word
		}
	}
	return strings.Join(out, " ")
}

// special reports whether r may mean something to a shell, unless it is quoted.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+./:@=,%", r)
}

// unseen reports whether a terminal may act on r, or a reader may not see it.
func unseen(r rune) bool {
	const brailleBlank, nullNotehead = '\u2800', '\U0001d159'
	return !unicode.IsPrint(r) || r == brailleBlank || r == nullNotehead || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
