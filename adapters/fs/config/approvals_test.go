package config

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Only the user's own file can let jobs decide. What one source demands in
// required_from, another cannot take back.
func TestWhereApprovalsAreConfigured(t *testing.T) {
	yes := "[approvals]\nfrom_jobs = true\n"
	if c, err := load(layers(t, yes, "", nil)); err != nil || !c.Approvals.FromJobs {
		t.Errorf("the user's file: %v, %v", c.Approvals, err)
	}
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte(yes), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]Sources{
		"the repository": layers(t, "", yes, nil), "both": layers(t, yes, yes, nil),
		"the environment": layers(t, yes, "", map[string]string{"VIZIER_APPROVALS_FROM_JOBS": "true"}),
		"a file":          {File: file, Env: func(string) string { return "" }},
	} {
		if c, err := load(src); err == nil || !strings.Contains(err.Error(), "only your own configuration file may set it") {
			t.Errorf("%s: %v, %v", name, c.Approvals, err)
		}
	}
	if c, err := load(layers(t, yes, "[approvals]\nfrom_jobs = false\n", nil)); err != nil || c.Approvals.FromJobs {
		t.Errorf("taken back by the repository: %v, %v", c.Approvals, err)
	}
	others := "[approvals]\nrequired_from = [\"not-submitter\"]\n"
	c, err := load(layers(t, others, "[approvals]\nrequired_from = []\n", nil))
	if err != nil || !slices.Equal(c.Approvals.RequiredFrom, []string{NotSubmitter}) || !c.Approvals.Others() {
		t.Errorf("what the user asks for and the repository does not: %v, %v", c.Approvals, err)
	}
	if _, err := load(layers(t, strings.ReplaceAll(others, "not-", "no-"), "", nil)); err == nil || !strings.Contains(err.Error(), `expected "not-submitter", found "no-submitter"`) {
		t.Error(err)
	}
}

func TestOwnFile(t *testing.T) {
	dir := t.TempDir()
	if AllowedIn(dir) {
		t.Error("nothing allows it")
	}
	if err := os.Mkdir(filepath.Join(dir, "vizier"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vizier", "config.toml"), []byte("[approvals]\nfrom_jobs = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !AllowedIn(dir) {
		t.Error("the file allows it")
	}
}

// The file counts that is in the home directory which the system has for a user.
func TestOwnFileOfAUser(t *testing.T) {
	if OwnAllows(1<<31 - 2) {
		t.Error("there is no such user")
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		t.Skip(err)
	}
	if got := OwnAllows(os.Getuid()); got != AllowedIn(filepath.Join(u.HomeDir, ".config")) {
		t.Errorf("%v", got)
	}
}
