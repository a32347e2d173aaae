package proc

import (
	"slices"
	"testing"
)

// What git tells a hook of the commit it runs for is not about what a job
// commits; without a hook it is the user's own setting.
func TestTheCommitOfAHookIsNotTheJobs(t *testing.T) {
	outer := []string{"GIT_AUTHOR_NAME=Zed", "GIT_AUTHOR_DATE=@1 +0000", "GIT_SSH_COMMAND=ssh"}
	if got := environment(nil, outer...); len(got) != 3 {
		t.Errorf("without a hook: %q", got)
	}
	got := environment([]string{"A=b"}, append([]string{"GIT_INDEX_FILE=.git/index"}, outer...)...)
	if !slices.Equal(got, []string{"A=b", "GIT_SSH_COMMAND=ssh"}) {
		t.Errorf("in a hook: %q", got)
	}
	named := append([]string{"GIT_INDEX_FILE=.git/index", "GIT_COMMITTER_NAME=Ann"}, outer...)
	if got := environment(nil, named...); slices.Contains(got, "GIT_AUTHOR_DATE=@1 +0000") || !slices.Contains(got, "GIT_AUTHOR_NAME=Zed") {
		t.Errorf("where the environment says who commits: %q", got)
	}
}
