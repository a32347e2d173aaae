package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// valuesOfFlags returns the functions that read values for the parser which begin with no dash: numbers and durations, and
// text of which the flag has the kind as its type. Their errors say what is expected.
func valuesOfFlags() []kong.Option {
	var options []kong.Option
	for _, kind := range []string{"duration", "time", "event", "entry"} {
		read := func(text string) (string, error) { return text, nil } // the command reads it
		options = append(options, kong.NamedMapper(kind, value(kind, read, func(target reflect.Value, text string) { reflect.Indirect(target).SetString(text) })))
	}
	return append(options,
		kong.KindMapper(reflect.Int, value("number", number(strconv.IntSize-1), func(target reflect.Value, n uint64) { target.SetInt(int64(n)) })),
		kong.KindMapper(reflect.Uint64, value("number", number(64), reflect.Value.SetUint)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), value("duration", duration, func(target reflect.Value, d time.Duration) { target.SetInt(int64(d)) })))
}

// value returns a function that reads the value of a flag and sets the flag.
func value[T any](kind string, read func(text string) (T, error), set func(reflect.Value, T)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto(kind, &text); err != nil {
			return err
		}
		v, err := read(text)
		if err == nil {
			set(target, v)
		}
		return err
	}
}

func number(bits int) func(text string) (uint64, error) {
	return func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 10, bits)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("the number %s is too large", text)
		case err != nil:
			return 0, unexpected("number", text)
		}
		return n, nil
	}
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, unexpected("duration", text)
	}
	return d, nil
}

// unexpected returns the error for a value that is not of its kind.
func unexpected(kind, text string) error {
	return fmt.Errorf("expected %s, not %q", expected(kind), text)
}

// expected says what a value of a kind is; "": any text.
func expected(kind string) string {
	const moment = "a duration such as 90m, 2h or 3d, a day such as 2026-11-22, or a time"
	return map[string]string{"number": "a number, 0 or more", "duration": "a duration such as 90s or 2h", "time": moment,
		"event": "the number of an event, " + moment, "entry": "an entry as `vizier history` prints it, " + moment}[kind]
}

// noValue matches the parser's error for a flag whose value begins with a dash or is missing.
const noValue = `^(.+): expected (\w+) value but got ("(.*)" \((?:short|long) flag\)(?:; perhaps try (--[^=]+)=)?|"EOL" \(<EOL>\))`

// plainly returns the parser's error about the value of a flag in the words of
// this program's own errors.
func plainly(text string) string {
	switch m := regexp.MustCompile(noValue).FindStringSubmatch(text); {
	case m == nil:
	case strings.HasPrefix(m[3], `"EOL"`):
		return m[1] + ": expected a value after it"
	case expected(m[2]) != "": // -n -1
		return m[1] + ": " + unexpected(m[2], m[4]).Error()
	case m[5] != "":
		return fmt.Sprintf("%s: expected a value after it; one that begins with a dash is written as %s=%s", m[1], m[5], m[4])
	}
	if flag, got, wrong := strings.Cut(text, ": bool value must be true, 1, yes, false, 0 or no but got "); wrong {
		return flag + ": expected true or false, not " + got
	}
	if flag, _, wrong := strings.Cut(text, `: missing value, expecting "`); wrong {
		return flag + ": expected a value after it"
	}
	flag, rest, wrong := strings.Cut(text, " must be one of ")
	if list, got, ok := strings.Cut(rest, " but got "); wrong && ok {
		var words []string
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.Trim(word, `"`); word != "" { // "" stands for leaving out the flag
				words = append(words, word)
			}
		}
		return fmt.Sprintf("%s: expected %s, not %s", flag, either(words), got)
	}
	return text
}

// asTyped returns an error's text with the letter of a flag in place of its name, if the letter was
// typed. The text begins with the flag's name if it is about the flag's value.
func asTyped(parse *kong.ParseError, text string) string {
	name, rest, _ := strings.Cut(text, ": ")
	if parse == nil || parse.Context == nil || !strings.HasPrefix(name, "--") {
		return text
	}
	node := cmp.Or(parse.Context.Selected(), parse.Context.Model.Node)
	f := flagOf(node, name)
	if f == nil || f.Short == 0 || slices.ContainsFunc(parse.Context.Args, func(arg string) bool { word, _, _ := strings.Cut(arg, "="); return word == name }) {
		return text
	}
	return "-" + string(f.Short) + ": " + rest
}

// either joins words with commas and "or".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
