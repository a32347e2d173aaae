package workflow

import (
	"maps"
	"slices"
)

// Setting is a value of the repository's configuration that a template may use
// as the default of a parameter.
type Setting struct {
	Value string
	Set   bool // if not, nobody configured it and the template's own default applies
}

// Configure returns src with the defaults that its [config] table takes from
// the repository's configuration. settings holds every key that exists. Like
// any default, these can be overridden on the command line; see Bind.
func Configure(src *Source, settings map[string]Setting) (*Source, error) {
	if len(src.config) == 0 {
		return src, nil
	}
	var r report
	out := *src
	out.Params = slices.Clone(src.Params)
	for _, c := range src.config {
		at := slices.IndexFunc(out.Params, func(p Entry) bool { return p.Key == c.Key })
		s, known := settings[c.Value]
		if at < 0 && !src.doubts.whole("params") {
			r.add(Diagnostic{Pos: c.Pos, Field: "config." + c.Key, Hint: didYouMean(c.Key, src.paramNames()),
				Msg: "[config] names unknown parameter `" + c.Key + "`"})
		}
		if !known {
			r.add(Diagnostic{Pos: c.Pos, Field: "config." + c.Key, Hint: didYouMean(c.Value, slices.Sorted(maps.Keys(settings))),
				Msg: "parameter `" + c.Key + "` cannot take its default from the configuration's `" + c.Value + "`"})
		}
		if at >= 0 && s.Set {
			out.Params[at].Value = s.Value
		}
	}
	return &out, r.err()
}

// configured adds the configured defaults of a stage. It is a finding if two
// stages take the parameter of one name from different keys.
func (c *composer) configured(out, child *Source, stage string) {
	for _, e := range child.config {
		at := slices.IndexFunc(out.config, func(o Entry) bool { return o.Key == e.Key })
		switch {
		case at < 0:
			out.config = append(out.config, e)
		case out.config[at].Value != e.Value:
			c.add(Diagnostic{Pos: e.Pos, Msg: "conflicting configuration of parameter `" + e.Key + "` while composing stage `" + stage +
				"` (`" + out.config[at].Value + "` vs `" + e.Value + "`)", Hint: "the other is at " + out.config[at].Pos.String()})
		}
	}
}
