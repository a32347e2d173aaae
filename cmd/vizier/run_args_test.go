package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestFlagsOfTemplates(t *testing.T) {
	var g grammar
	var exited bool
	parser, err := newParser(&g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"run draft --spec-file X --name y":      "run draft --set=spec_file=X --set=name=y",
		"run draft --spec-file=a=b":             "run draft --set=spec_file=a=b",
		"run draft --dry --follow":              "run draft --set=dry=true --follow",
		"run draft --dry":                       "run draft --set=dry=true",
		"run draft --budget -3 --dry -x":        "run draft --set=budget=-3 --set=dry=true -x",
		"run draft --text - next":               "run draft --set=text=- next",
		"run --set a=b draft in -- --not-a-key": "run --set a=b draft in -- --not-a-key",
		"run draft --after J --format=json -v":  "run draft --after J --format=json -v",
		"run draft --help":                      "run draft --template-help",
		"run draft -h":                          "run draft --template-help",
		"run --help":                            "run --help",
		"-C file -v run draft --x 1":            "-C file -v run draft --set=x=1",
		"audit draft --x 1 --strict":            "audit draft --set=x=1 --strict",
		"jobs list --unknown x":                 "jobs list --unknown x",
		"--unknown run draft --x 1":             "--unknown run draft --set=x=1",
		"":                                      "",
	} {
		if got := flowArguments(parser.Model, strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestFlagsBetweenTargets(t *testing.T) {
	var g grammar
	var exited bool
	parser, err := newParser(&g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"jobs approve p --digest X q":          "jobs approve --digest X -- p q",
		"-C dir retry 12 --format=json 13":     "-C dir retry --format=json -- 12 13",
		"tail 12 -f 13 -n 5 14":                "tail -f -n 5 -- 12 13 14",
		"show 12 --raw -- --name":              "show --raw -- 12 --name",
		"wait 12 - --unknown":                  "wait --unknown -- 12 -",
		"tail 12 -n5 13 -fn 7 14":              "tail -n5 -fn 7 -- 12 13 14",
		"tail 12 -n":                           "tail 12 -n",
		"submit make --name x -- all":          "submit make --name x -- all",
		"jobs payload 12 --format json custom": "jobs payload 12 --format json custom",
		"jobs":                                 "jobs",
		"":                                     "",
	} {
		if got := flagsFirst(parser.Model, strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// All words behind -- arrive, and one too many is refused.
func TestManyArguments(t *testing.T) {
	var g grammar
	var exited bool
	parser, err := newParser(&g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = parseMany(parser, []string{"submit", "--name", "x", "--", "make", "all", "-k", "--", "é"}); err != nil {
		t.Fatal(err)
	}
	if got := g.Submit.Request.Command; !slices.Equal(got, []string{"make", "all", "-k", "--", "é"}) || g.Submit.Request.Name != "x" {
		t.Errorf("the command is %q, the name %q", got, g.Submit.Request.Name)
	}
	if _, err = parseMany(parser, []string{"top", "--", "1", "2"}); err == nil || !strings.Contains(err.Error(), "unexpected argument 2") {
		t.Errorf("one argument too many: %v", err)
	}
}

func TestTheIgnoreBlock(t *testing.T) {
	block := "# Vizier\n" + strings.Join(ignoreRules, "\n") + "\n"
	for name, row := range map[string]struct{ in, want string }{
		"nothing":           {"", block},
		"no newline":        {"*.o", "*.o\n\n" + block},
		"already there":     {"*.o\n\n" + block + "# mine\n", "*.o\n\n" + block + "# mine\n"},
		"twice":             {block + block, block},
		"other spellings":   {"/.vizier/jobs\n**/.vizier/tmp/*\n*.o\n", "*.o\n\n" + block},
		"CRLF":              {"*.o\r\n", strings.ReplaceAll("*.o\n\n"+block, "\n", "\r\n")},
		"a comment like it": {"# Vizier makes these\n*.o\n", "# Vizier makes these\n*.o\n\n" + block},
		"an exception":      {"!.vizier/jobs/keep\n*.o\n", "*.o\n\n" + block + "!.vizier/jobs/keep\n"},
		"something below":   {".vizier/jobs/x\n", ".vizier/jobs/x\n\n" + block},
		"something like it": {".vizier/jobs2\n", ".vizier/jobs2\n\n" + block},
	} {
		got, lacks := ignoring(row.in)
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
		if again, more := ignoring(got); again != got || len(more) != 0 {
			t.Errorf("%s: not settled: %q, %v", name, again, more)
		}
		if (row.in == row.want) != (len(lacks) == 0) {
			t.Errorf("%s: lacks %v", name, lacks)
		}
	}
}

// The value of a flag that is wrong is answered with the flag and what is expected.
func TestWrongValuesOfFlags(t *testing.T) {
	w := newFake(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`--retries: expected a number, 0 or more, not "x"`, []string{"submit", "--retries", "x", "--", "true"}},
		{`--retries: expected a number, 0 or more, not "1.5"`, []string{"submit", "--retries", "1.5", "--", "true"}},
		{`--retries: expected a number, 0 or more, not ""`, []string{"submit", "--retries=", "--", "true"}},
		{`--retries: the number 99999999999999999999 is too large`, []string{"submit", "--retries", "99999999999999999999", "--", "true"}},
		{`-n: expected a number, 0 or more, not "-1"`, []string{"tail", "1", "-n", "-1"}},
		{`-n: expected a number, 0 or more, not "x"`, []string{"tail", "1", "-nx"}},
		{`-n: expected a number, 0 or more, not "x"`, []string{"ls", "-n", "x"}},
		{`-n: the number 99999999999999999999 is too large`, []string{"runs", "-n", "99999999999999999999"}},
		{`-n: expected a value after it`, []string{"ls", "-n"}},
		{`-C: expected a value after it`, []string{"-C"}},
		{`--lines: expected a number, 0 or more, not "-1"`, []string{"tail", "1", "--lines", "-1"}},
		{`--most: expected a number, 0 or more, not "x"`, []string{"ls", "--most=x"}},
		{`--max-running: expected a number, 0 or more, not "-1"`, []string{"simulate", "--max-running=-1"}},
		{`--seed: expected a number, 0 or more, not "x"`, []string{"simulate", "--seed", "x"}},
		{`--retry: expected a value after it`, []string{"what-if", "--retry"}},
		{`--status: expected a value after it`, []string{"ls", "--status"}},
		{`--draws: expected a value after it`, []string{"simulate", "--draws"}},
		{`--name: expected a value after it`, []string{"submit", "--name"}},
		{`--name: expected a value after it; one that begins with a dash is written as --name=-x`, []string{"submit", "--name", "-x", "--", "true"}},
		{`--name: expected a value after it; one that begins with a dash is written as --name=--tag=x`, []string{"submit", "--name", "--tag=x", "--", "true"}},
		{`-C: expected a value after it; one that begins with a dash is written as --config-file=-x`, []string{"-C", "-x", "ls"}},
		{`--lines: expected a number, 0 or more, not "--follow"`, []string{"tail", "1", "--lines", "--follow"}},
		{`--timeout: expected a duration such as 90s or 2h, not "5"`, []string{"wait", "1", "--timeout", "5"}},
		{`--timeout: expected a duration such as 90s or 2h, not "-5s"`, []string{"wait", "1", "--timeout", "-5s"}},
		{`--timeout: expected a duration such as 90s or 2h, not "-5s"`, []string{"submit", "--timeout", "-5s", "--", "true"}},
		{`--since: expected a duration such as 90m, 2h or 3d, a day such as 2026-11-22, or a time, not "-1d"`, []string{"ls", "--since", "-1d"}},
		{`--since: expected the number of an event, a duration such as 90m, 2h or 3d, a day such as 2026-11-22, or a time, not "-1"`, []string{"jobs", "events", "--since", "-1"}},
		{"--at: expected an entry as `vizier history` prints it, a duration such as 90m, 2h or 3d, a day such as 2026-11-22, or a time, not \"-1d\"", []string{"ls", "--at", "-1d"}},
		{`--approval: expected true or false, not "x"`, []string{"submit", "--approval=x", "--", "true"}},
		{`--format: expected list, block, table or json, not "x"`, []string{"ls", "--format", "x"}},
		{`<shell>: expected bash, zsh or fish, not "x"`, []string{"completions", "x"}},
	} {
		has(t, w.fails(2, c.args...), c.want)
	}
}
