package kernel_test

import (
	"errors"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestParseArtifact(t *testing.T) {
	for label, want := range map[string]kernel.Artifact{
		"plan_branch:foo":              {Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"},
		"plan_branch:foo ()":           {Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"},
		"plan_doc:foo (feature/x)":     {Kind: kernel.PlanDoc, Name: "foo", Ref: "feature/x"},
		"plan_commits:foo (draft/foo)": {Kind: kernel.PlanCommits, Name: "foo", Ref: "draft/foo"},
		"target_branch:release/1":      {Kind: kernel.TargetBranch, Name: "release/1"},
		"merge_sentinel:foo":           {Kind: kernel.MergeSentinel, Name: "foo"},
		"command_patch:j1":             {Kind: kernel.CommandPatch, Name: "j1"},
		"custom:stage_token:a:b":       {Kind: kernel.Custom, Name: "stage_token", Ref: "a:b"},
		"custom:with space:ä (b)":      {Kind: kernel.Custom, Name: "with space", Ref: "ä (b)"},
	} {
		got, err := kernel.ParseArtifact(label)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", label, got, err, want)
		}
	}
	for _, label := range []string{"", "foo", "plan_branch", "plan_branch:", "plan_branch:a b", "plan_branch:a (b c)", "plan_branch:a(b)",
		"nothing:foo", "custom:foo", "custom:foo:", "custom::foo", "custom:a:b\n", "target_branch:\x00", "merge_sentinel:\xff", "Custom:a:b"} {
		if got, err := kernel.ParseArtifact(label); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %+v, %v", label, got, err)
		}
	}
}

func TestArtifactBranch(t *testing.T) {
	for label, want := range map[string]string{"plan_branch:foo": "draft/foo", "plan_doc:foo (x)": "x", "plan_commits:foo": "draft/foo",
		"target_branch:main": "main", "merge_sentinel:foo": "", "command_patch:j": "", "custom:a:b": ""} {
		if got := artifact(label).Branch(); got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
	if a := (kernel.Artifact{Kind: kernel.PlanBranch}).Canonical(); a.Ref != "" {
		t.Errorf("an artifact without a name got the branch %q", a.Ref)
	}
}

func TestArtifactValidate(t *testing.T) {
	for _, a := range []kernel.Artifact{{}, {Kind: 7, Name: "a"}, {Kind: kernel.TargetBranch, Name: "a", Ref: "b"},
		{Kind: kernel.Custom, Name: "a:b", Ref: "c"}, {Kind: kernel.PlanDoc, Name: "a", Ref: "b)"}, {Kind: kernel.Custom, Name: "a", Ref: "\x7f"}} {
		if err := a.Validate(); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// A parsed artifact prints as a label that parses to the same artifact.
func FuzzParseArtifact(f *testing.F) {
	for _, label := range append(oneOfEach, "plan_branch:a", "custom:a:b:c", "plan_doc:a (b", "plan_doc:a (b) (c)", "target_branch: ", "custom:a (b):c") {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		a, err := kernel.ParseArtifact(label)
		if err != nil {
			if !errors.Is(err, kernel.ErrInvalid) {
				t.Errorf("%q: an error of no class: %v", label, err)
			}
			return
		}
		if again, err := kernel.ParseArtifact(a.String()); err != nil || again != a {
			t.Errorf("%q is %+v, printed as %q, read again as %+v, %v", label, a, a, again, err)
		}
		if a.Canonical() != a {
			t.Errorf("%q: %+v is not canonical", label, a)
		}
	})
}

// Any valid artifact prints as a label that parses to it.
func FuzzArtifactRoundTrip(f *testing.F) {
	f.Add(uint8(kernel.PlanDoc), "foo", "draft/foo")
	f.Add(uint8(kernel.Custom), "stage_token", "a:b")
	f.Add(uint8(kernel.TargetBranch), "main", "")
	f.Fuzz(func(t *testing.T, kind uint8, name, ref string) {
		a := kernel.Artifact{Kind: kernel.ArtifactKind(kind), Name: name, Ref: ref}.Canonical()
		if a.Validate() != nil {
			return
		}
		if again, err := kernel.ParseArtifact(a.String()); err != nil || again != a {
			t.Errorf("%+v prints as %q, which reads as %+v, %v", a, a, again, err)
		}
	})
}
