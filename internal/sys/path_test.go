package sys

import (
	"encoding/json"
	"slices"
	"testing"
)

// JSON keeps every byte of a path. One that is UTF-8 stands there as it is.
func TestPathsInJSON(t *testing.T) {
	type both struct {
		One  Path `json:",omitempty"`
		Many Paths
	}
	for path, want := range map[string]string{
		"":                         `{"Many":["",""]}`,
		"/a/caf\u00e9\ufffd":       "{\"One\":\"/a/caf\u00e9\ufffd\",\"Many\":[\"\",\"/a/caf\u00e9\ufffd\"]}",
		"/a/caf\xe9/b":             `{"One":"/a/caf\u0000e9/b","Many":["","/a/caf\u0000e9/b"]}`,
		"\xff\xfe\u00e9\ufffd\xc3": "{\"One\":\"\\u0000ff\\u0000fe\u00e9\ufffd\\u0000c3\",\"Many\":[\"\",\"\\u0000ff\\u0000fe\u00e9\ufffd\\u0000c3\"]}",
	} {
		b, err := json.Marshal(both{Path(path), Paths{"", path}})
		if string(b) != want || err != nil {
			t.Errorf("%q: %s, %v", path, b, err)
		}
		var got both
		if err := json.Unmarshal(b, &got); err != nil || string(got.One) != path || !slices.Equal(got.Many, Paths{"", path}) {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
	for _, bad := range []string{`"a\u0000"`, `"a\u0000e"`, `"a\u0000xx"`, `"a\u0000\u0000e9"`, `7`} {
		var p Path
		if json.Unmarshal([]byte(bad), &p) == nil {
			t.Errorf("%s: %q", bad, p)
		}
	}
	var all Paths
	if json.Unmarshal([]byte(`"a"`), &all) == nil {
		t.Errorf("%q", all)
	}
	if b, err := json.Marshal(Paths(nil)); string(b) != "[]" || err != nil {
		t.Errorf("none: %s, %v", b, err)
	}
}
