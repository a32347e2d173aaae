package proptest

import (
	"reflect"
	"testing"
)

// Every field of a job that a decision may depend on is drawn: without that, no
// world tests the laws about it. The fields that decide nothing are listed.
func TestTheGeneratorFillsEveryField(t *testing.T) {
	except := map[string]string{
		"Spec.Name": "for people", "Spec.Tags": "for people", "Spec.Origin.Node": "for people", "Spec.Origin.Command": "for people",
		"Spec.Origin.Target": "for people", "Spec.Origin.Template": "for people", "Spec.Origin.Manifest": "the executor's", "Spec.Origin.TraceParent": "package trace's",
		"Spec.Task.Dir": "the executor's", "Spec.Task.Env": "the executor's", "Spec.Task.PassEnv": "the executor's", "Spec.Task.Secrets": "the executor's",
		"Spec.KeepSession": "the agent's", "State.Agent": "the agent's", "State.Place": "for people", "Spec.Task.Tree": "the executor's",
		"Spec.Task.Timeout": "the executor's", "Spec.ProducesOn": "for foresight", "Spec.Task.Grace": "the executor's", "Spec.Configured": "for people",
	}
	drawn, fields := map[string]bool{}, map[string]bool{}
	var look func(path string, v reflect.Value)
	look = func(path string, v reflect.Value) {
		fields[path] = true
		if !v.IsZero() {
			drawn[path] = true
		}
		if path == "Spec" || path == "State" || path == "Spec.Origin" || path == "Spec.Task" {
			for i := range v.NumField() {
				look(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	for i := range 3000 {
		for _, j := range World.Example(i).Jobs {
			look("Spec", reflect.ValueOf(j.Spec))
			look("State", reflect.ValueOf(j.State))
		}
	}
	for path := range fields {
		why, excepted := except[path]
		switch {
		case excepted && drawn[path]:
			t.Errorf("%s is drawn, and is excepted: %s", path, why)
		case !excepted && !drawn[path]:
			t.Errorf("%s is never drawn: draw it in gen.go, or except it here with a reason", path)
		}
	}
	for path := range except {
		if !fields[path] {
			t.Errorf("there is no %s to be excepted", path)
		}
	}
}
