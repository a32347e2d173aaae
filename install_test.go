package vizier_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What make install puts somewhere works from there: the program runs jobs and
// finds the shims beside it, every manual page is whole, and the shells that are
// there complete.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	bin, dest := buildVizier(t), t.TempDir()
	prefix := filepath.Join(dest, "opt")
	out, err := exec.Command("make", "-s", "-o", "build", "install", "PROGRAMS="+filepath.Join(bin, "vizier"), "DESTDIR="+dest, "PREFIX=/opt").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	shim := filepath.Join(prefix, "share", "vizier", "agents", "parrot")
	if err := os.Mkdir(shim, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shim, "agent.sh"), []byte("#!/bin/sh\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := `set -e
git init -q -b main . && git commit -q --allow-empty -m start
mkdir .vizier && echo 'agent = "parrot"' >.vizier/config.toml
vizier wait "$(vizier submit --name hello -- true)"
vizier agents
`
	if _, err := exec.LookPath("bash"); err == nil {
		script += `bash -c '. "` + prefix + `/share/bash-completion/completions/vizier"; try() { COMP_LINE=$1$2 COMP_POINT=$((${#1} + ${#2})); _vizier vizier "$2"; echo "completed: ${COMPREPLY[*]}"; }
try "vizier show " hel
try "vizier wait " ""
try "vizier submit --after=" @la'
`
	} else {
		script += "echo completed: hello; echo completed: 1; echo completed: @last\n"
	}
	want := []string{"1 succeeded\n", "parrot", "completed: hello", "completed: 1", "completed: @last"}
	for shell, line := range map[string]string{
		"fish": `complete -C "vizier show hel"; complete -C "vizier run draft --file notes"`,
		"zsh": `compdef() { : }; _files() { print notes.md }; _describe() { print -rl -- "${(@P)2}" | tr : "\t" }
. "` + prefix + `/share/zsh/site-functions/_vizier"; words=(vizier show hel) CURRENT=3 PREFIX=hel; _vizier; words=(vizier run draft --file notes) CURRENT=5 PREFIX=notes; _vizier`,
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its completions are not tried", shell)
			continue
		}
		script += ": >notes.md; echo " + shell + ": $(" + shell + " -c '" + line + "')\n"
		want = append(want, shell+": hello succeeded 1 notes.md")
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + filepath.Join(prefix, "bin") + ":" + withoutAgents(os.Getenv("PATH")), "HOME=" + t.TempDir(), "VIZIER_SCHEDULER_RESIDENT=false",
		"XDG_DATA_DIRS=" + filepath.Join(prefix, "share") + ":/usr/share",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=a@b"}
	out, err = cmd.CombinedOutput()
	for _, want := range want {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q, %v: %s", want, err, out)
		}
	}
	pages, err := filepath.Glob(filepath.Join(prefix, "share", "man", "man1", "*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d manual pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if to := regexp.MustCompile(`^\.so (man1/\S+)\n$`).FindSubmatch(text); to != nil {
			if _, err := os.Stat(filepath.Join(prefix, "share", "man", string(to[1]))); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		} else if !strings.Contains(string(text), ".SH NAME") {
			t.Errorf("%s is no manual page", page)
		}
	}
	for _, file := range []string{"share/zsh/site-functions/_vizier", "share/fish/vendor_completions.d/vizier.fish", "share/vizier/hooks/desktop.sh", "share/vizier/hooks/mail.sh", "share/vizier/hooks/webhook.sh"} {
		if _, err := os.Stat(filepath.Join(prefix, file)); err != nil {
			t.Error(err)
		}
	}
}
