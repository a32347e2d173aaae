package app_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/app"
)

func TestLatestVersion(t *testing.T) {
	for _, c := range []struct {
		tags  []string
		want  string
		found bool
	}{
		{nil, "0.0.0", false},
		{[]string{"v1", "1.2.3", "v1.2.3-rc.1", "v01.2.3", "v1.2.3.4", "v9999999999.0.0", "xv1.2.3"}, "0.0.0", false},
		{[]string{"v0.9.0", "v0.10.0", "v0.2.99"}, "0.10.0", true},
		{[]string{"v2.0.0", "v10.0.0", "latest"}, "10.0.0", true},
		{[]string{"v0.0.0"}, "0.0.0", true},
	} {
		if got, found := app.LatestVersion(c.tags); got.String() != c.want || found != c.found {
			t.Errorf("LatestVersion(%q) = %s, %t; want %s, %t", c.tags, got, found, c.want, c.found)
		}
	}
}

func TestNextVersion(t *testing.T) {
	v := app.Version{Major: 1, Minor: 2, Patch: 3}
	for bump, want := range map[app.Bump]string{
		app.NoBump: "v1.2.3", app.PatchBump: "v1.2.4", app.MinorBump: "v1.3.0", app.MajorBump: "v2.0.0",
	} {
		if got := v.Next(bump).Tag(); got != want {
			t.Errorf("%s after %s: %s, want %s", bump, v, got, want)
		}
	}
}

func TestBumpFor(t *testing.T) {
	for message, want := range map[string]app.Bump{
		"":                                   app.NoBump,
		"feature: x":                         app.NoBump,
		"add a thing":                        app.NoBump,
		"feat:x":                             app.NoBump,
		"feat: ":                             app.NoBump,
		"docs: x":                            app.NoBump,
		"fix: x":                             app.PatchBump,
		"perf(io): x":                        app.PatchBump,
		"Feat(cli): x":                       app.MinorBump,
		"refactor!: x":                       app.MajorBump,
		"chore(api)!: x":                     app.MajorBump,
		"fix: x\n\nBREAKING CHANGE: y":       app.MajorBump,
		"fix: x\n\nbody\nBREAKING-CHANGE: y": app.MajorBump,
		"fix: x\n\nno BREAKING CHANGE: y":    app.PatchBump,
		"a merge\n\nBREAKING CHANGE: y":      app.NoBump,
	} {
		if got := app.BumpFor([]app.Change{{Message: "docs: a"}, {Message: message}, {Message: "test: b"}}); got != want {
			t.Errorf("%q asks for %s, want %s", message, got, want)
		}
	}
	if got := app.BumpFor([]app.Change{{Message: "fix: a"}, {Message: "feat: b"}, {Message: "fix: c"}}); got != app.MinorBump {
		t.Errorf("the most that is asked for: %s, want minor", got)
	}
}

func TestReleaseNotes(t *testing.T) {
	changes := []app.Change{
		{"1111111111111111", "docs: more"},
		{"2222222222222222", "fix(io): flush"},
		{"3333333333333333", "Merge branch 'x'"},
		{"4444444444444444", "feat: one\n\nbody"},
		{"5555555555555555", "feat!: drop"},
		{"6666666666666666", "chore(release): v1.0.0"},
		{"7777777777777777", "feat: two"},
		{"8888888888888888", "chore: tidy"},
		{"9999999999999999", "Merge it all\r\n\r\nbody"},
		{"aaaaaaaaaaaaaaaa", "Say so\r\n\r\nbody"},
	}
	all := "Breaking changes:\n- drop (555555555555)\n\nFeatures:\n- one (444444444444)\n- two (777777777777)\n\n" +
		"Fixes:\n- io: flush (222222222222)\n\nOther changes:\n- more (111111111111)\n- tidy (888888888888)\n- Say so (aaaaaaaaaaaa)\n"
	for limit, want := range map[int]string{
		20: all,
		7:  all,
		2:  "Breaking changes:\n- drop (555555555555)\n\nFeatures:\n- one (444444444444)\n\nand 5 more\n",
	} {
		if got := app.ReleaseNotes(changes, limit); got != want {
			t.Errorf("at most %d:\n%s\nwant:\n%s", limit, got, want)
		}
	}
}
