package fs

import (
	"encoding/json"
	"fmt"
	"testing"
)

// A verb whose arguments cannot be read is an error, and never a verb with other arguments.
func TestArgumentsOfVerbsThatCannotBeRead(t *testing.T) {
	job := fmt.Sprintf(`"job":%q`, id(1))
	for name, more := range map[string][]string{
		"submit": {`{"jobs":[1]}`}, "enqueue": {`{"jobs":[1]}`}, "approve": nil, "reject": nil, "cancel": nil, "retry": nil,
		"finish":     {`{` + job + `}`, `{` + job + `,"result":[]}`, `{` + job + `,"result":{"outcome":"odd"}}`},
		"refuse":     nil,
		"cleaned_up": {`{` + job + `,"status":"odd"}`},
		"tended":     {`{` + job + `,"name":"odd"}`},
		"gc":         nil, "clean": nil, "keep": nil,
		"of the future": {`{}`},
	} {
		for _, args := range append(more, `[]`, `{`) {
			if v, err := decodeVerb(name, json.RawMessage(args)); err == nil {
				t.Errorf("%s %s is read as %+v", name, args, v)
			}
		}
	}
}
