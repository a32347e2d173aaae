package kernel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestTags(t *testing.T) {
	for text, want := range map[string]string{
		"team=core": "", "k8s.io/part-of=x=y": "", "a=": "", "größe=1": "",
		"team": "expected KEY=VALUE", "=x": "a key has", "a b=c": "a key has", strings.Repeat("k", 65) + "=v": "a key has",
		"a=" + strings.Repeat("v", 257): "a value has", "a=\n": "a value has", "a=\xff": "a value has",
	} {
		tag, err := kernel.ParseTag(text)
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
		if err == nil && tag.String() != text {
			t.Errorf("%q comes back as %q", text, tag)
		}
	}
	enqueue := func(tags ...kernel.Tag) ([]kernel.Tag, error) {
		n := submission("n", func(j *kernel.Job) { j.Spec.Tags = tags })
		p, err := kernel.Enqueue(snapshot(facts()), []kernel.NewJob{n})
		if err != nil {
			return nil, err
		}
		return snapshot(facts()).Apply(p).Job("n").Spec.Tags, nil
	}
	b, a := kernel.Tag{Key: "b", Value: "1"}, kernel.Tag{Key: "a", Value: "2"}
	if got, err := enqueue(b, a, b); err != nil || !slices.Equal(got, []kernel.Tag{a, b}) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := enqueue(b, kernel.Tag{Key: "b", Value: "2"}); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("one key with two values: %v", err)
	}
	var many []kernel.Tag
	for i := range 33 {
		many = append(many, kernel.Tag{Key: fmt.Sprint("k", i)})
	}
	if _, err := enqueue(many...); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("33 tags: %v", err)
	}
	spec := kernel.Spec{Tags: []kernel.Tag{a, b}}
	if !spec.Tagged(nil) || !spec.Tagged([]kernel.Tag{b}) || spec.Tagged([]kernel.Tag{b, {Key: "a"}}) {
		t.Error("a job is selected by all of the tags that are asked for")
	}
}
