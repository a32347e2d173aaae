package config

import (
	"strconv"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Flows holds the configured values that templates may use as defaults of their
// parameters, by key: a string, an int64 or a bool. For a key that is missing,
// the template's own default applies.
type Flows map[string]any

// flowKeys are the keys of Flows with the functions that parse their values.
var flowKeys = []struct {
	key, doc string
	read     func(v any) (any, error)
}{
	{"merge.cicd_gate.script", "A shell command that must succeed once a plan is merged; unset, the template decides: none in the shipped one.", asText},
	{"merge.cicd_gate.auto_resolve", "Whether auto_resolve_script may repair what that command found; unset, the template decides: no.", asTruth},
	{"merge.cicd_gate.auto_resolve_script", "A shell command that repairs it; the gate's command then runs again; unset, the template decides: none.", asText},
	{"merge.cicd_gate.sandbox", "The sandbox of that command, the repairing one and pre_merge_script: \"none\", \"best-effort\" or \"required\"; unset, the template decides: best-effort.", asSandbox},
	{"merge.cicd_gate.retries", "How often the whole gate is tried again after a failure, at most; unset, the template decides: 0.", asCount},
	{"approve.stop_condition.script", "A shell command that must succeed in a plan's worktree, or the agent works again; unset, the template decides: none.", asText},
	{"approve.stop_condition.sandbox", "The sandbox of that command: \"none\", \"best-effort\" or \"required\"; unset, the template decides: best-effort.", asSandbox},
	{"approve.stop_condition.retries", "How often the agent works again, at most; unset, the template decides: 3.", asCount},
}

func asText(v any) (any, error) { return str(v) }
func asSandbox(v any) (any, error) {
	word, err := str(v)
	if err == nil {
		_, err = kernel.ParseSandboxMode(word)
	}
	return word, err
}
func asTruth(v any) (any, error)  { return boolean(v) }
func asCount(v any) (any, error) { return wholeNumber(v) }

// Settings returns every key that templates may name, set or not.
func (f Flows) Settings() map[string]workflow.Setting {
	out := map[string]workflow.Setting{}
	for _, k := range flowKeys {
		var s workflow.Setting
		switch v := f[k.key].(type) {
		case string:
			s = workflow.Setting{Value: v, Set: true}
		case int64:
			s = workflow.Setting{Value: strconv.FormatInt(v, 10), Set: true}
		case bool:
			s = workflow.Setting{Value: strconv.FormatBool(v), Set: true}
		}
		out[k.key] = s
	}
	return out
}

func flows() []setting {
	var out []setting
	for _, k := range flowKeys {
		out = append(out, setting{key: k.key, doc: k.doc,
			get: func(c *Config) any {
				if v, set := c.Flows[k.key]; set {
					return v
				}
				return ""
			},
			put: func(c *Config, _ string, v any) error {
				read, err := k.read(v)
				if err == nil {
					c.Flows[k.key] = read
				}
				return err
			}})
	}
	return out
}
