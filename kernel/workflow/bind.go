package workflow

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bind returns the value of every parameter of src: its defaults, overridden by
// set (KEY=VALUE or --key value, by parameter or by alias) and by the
// positional inputs. flow is the template's name as the caller typed it;
// messages show it.
func Bind(flow string, src *Source, set map[string]string, positional []string) (map[string]string, error) {
	b := bind(flow, src, set, positional)
	return b.params, b.err()
}

func bind(flow string, src *Source, set map[string]string, positional []string) *binder {
	b := &binder{flow: flow, src: src, params: map[string]string{}, by: map[string]string{}, typed: map[string]string{}, unsure: map[string]bool{}}
	for _, p := range src.Params {
		b.params[p.Key] = p.Value
	}
	b.declared()
	aliases := map[string]string{}
	for _, a := range src.CLI.Named {
		aliases[a.Key] = a.Value
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if param, isAlias := aliases[key]; isAlias {
			b.put(param, set[key], "`--"+key+"` alias", key)
		} else {
			b.put(key, set[key], "explicit override", key)
		}
	}
	b.positional(positional)
	for _, near := range b.mistaken {
		b.inVain(near)
	}
	return b
}

type binder struct {
	report
	flow     string
	src      *Source
	params   map[string]string
	by       map[string]string // parameter → how it was given
	typed    map[string]string // parameter → the flag or the input that gave it
	mistaken []string          // what an unknown input may have been meant for; "": anything
	unsure   map[string]bool   // parameters whose intended value may be another one
}

// inVain records that an input was given which the template does not take. It
// marks the parameters that the input may have been meant for as unsure: near
// and those without a value or, if near is "", all that were not given.
func (b *binder) inVain(near string) {
	for p := range b.params {
		if b.by[p] == "" && (near == "" || near == p) {
			b.unsure[p] = true
		}
	}
	b.lacking()
}

// lacking marks the parameters without a value as unsure.
func (b *binder) lacking() {
	for p, value := range b.params {
		b.unsure[p] = b.unsure[p] || value == ""
	}
}

// declared checks that [cli] only names declared parameters.
func (b *binder) declared() {
	for _, a := range b.src.CLI.Named {
		switch _, ok := b.src.param(a.Value); {
		case strings.TrimSpace(a.Key) == "" || strings.TrimSpace(a.Value) == "":
			b.addf(a.Pos, "workflow `%s` has an empty alias or alias target in [cli.named]", b.flow)
		case !ok && !b.src.doubts.whole("params"):
			b.add(Diagnostic{Pos: a.Pos, Field: "cli.named." + a.Key, Hint: didYouMean(a.Value, b.src.paramNames()),
				Msg: "workflow `" + b.flow + "` alias `" + a.Key + "` maps to unknown parameter `" + a.Value + "`"})
		}
	}
	for _, p := range b.src.CLI.Positional {
		if _, ok := b.src.param(p.Value); !ok && !b.src.doubts.whole("params") {
			b.add(Diagnostic{Pos: p.Pos, Field: "cli.positional", Hint: didYouMean(p.Value, b.src.paramNames()),
				Msg: "workflow `" + b.flow + "` positional input `" + p.Value + "` is not declared in [params]"})
		}
	}
}

// put sets a parameter; setting it twice is a finding.
func (b *binder) put(param, value, how, key string) {
	if _, ok := b.params[param]; !ok {
		names, param := b.src.paramNames(), map[string]string{}
		for _, a := range b.src.CLI.Named {
			names, param[a.Key] = append(names, a.Key), a.Value
		}
		near := Suggest(key, names)
		b.mistaken = append(b.mistaken, cmp.Or(param[near], near))
		if b.src.doubts.whole("params") || b.src.doubts.about("cli.named") {
			return
		}
		hint := didYouMean(key, names)
		if hint == "" && len(names) > 0 {
			slices.Sort(names)
			hint = "its parameters are " + strings.Join(slices.Compact(names), ", ")
		}
		b.add(Diagnostic{Msg: "workflow `" + b.flow + "` has no parameter `" + key + "`", Hint: hint})
		return
	}
	if earlier, twice := b.by[param]; twice {
		b.unsure[param] = true
		b.addf(Pos{}, "workflow parameter `%s` was provided multiple ways (%s and %s)", param, min(how, earlier), max(how, earlier))
		return
	}
	b.by[param], b.params[param] = how, value
	b.typed[param] = "--" + strings.ReplaceAll(key, "_", "-")
}

func (b *binder) positional(values []string) {
	names := make([]string, len(b.src.CLI.Positional))
	for i, p := range b.src.CLI.Positional {
		names[i] = p.Value
	}
	switch {
	case len(values) == 0:
	case len(values) > len(names) && b.src.doubts.about("cli.positional"):
		b.mistaken = append(b.mistaken, "")
	case len(names) == 0:
		b.mistaken = append(b.mistaken, "")
		b.add(Diagnostic{Msg: "workflow `" + b.flow + "` does not define positional inputs", Hint: "use --set KEY=VALUE or a named flag"})
	case len(values) > len(names):
		b.mistaken = append(b.mistaken, "")
		b.addf(Pos{}, "workflow `%s` accepts at most %d positional input(s): %s", b.flow, len(names), strings.Join(names, ", "))
	default:
		for i, v := range values {
			if _, ok := b.params[names[i]]; !ok {
				continue // reported by declared
			}
			if _, twice := b.by[names[i]]; twice {
				b.unsure[names[i]] = true
				b.addf(Pos{}, "workflow parameter `%s` was provided multiple ways (positional input %s and named override)", names[i], strconv.Itoa(i+1))
				continue
			}
			how := "positional input " + strconv.Itoa(i+1)
			b.put(names[i], v, how, names[i])
			b.typed[names[i]] = how + ", " + names[i]
		}
	}
}
