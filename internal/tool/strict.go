package tool

// This file checks arguments as the wsltop contract does (section 5.1), in its
// order: each argument allowed and not null, types, pairs, required ones, what
// needs another, lengths of ids, bounds, lengths of other strings, enumerated
// values. Nothing is coerced: 5.0 and "5" are no integers. Of an argument that
// is given twice the last one counts, as in the original's JSON reader.

import (
	"encoding/json"
	"slices"
	"strconv"
)

// CheckStrict checks the arguments object of a call of t in the dialect of the
// wsltop contract. Its error is an [*ArgumentError].
func CheckStrict(t *Tool, arguments json.RawMessage) (Call, error) {
	sent, err := members(arguments)
	if err != nil {
		return Call{}, t.fault("", "%v", err)
	}
	sent = lastOnes(sent)
	for _, m := range sent {
		if _, ok := t.property(m.name); !ok {
			return Call{}, t.fault("", "unknown argument %s; %s", named(m.name), t.argumentNames())
		}
		if isNull(m.sent) {
			return Call{}, t.fault(m.name, "must not be null; leave it out instead")
		}
	}
	call := Call{tool: t, values: make([]value, 0, len(sent))}
	for _, m := range sent {
		p, _ := t.property(m.name)
		v, ok := exact(p.Type, m.sent)
		if !ok {
			return Call{}, t.refuse(p, m.sent)
		}
		call.values = append(call.values, value{m.name, v})
	}
	if err := t.checkPairs(call); err != nil {
		return Call{}, err
	}
	return call, t.checkStages(call)
}

// lastOnes keeps the last of each name.
func lastOnes(sent []member) []member {
	kept := sent[:0]
	for i, m := range sent {
		if !slices.ContainsFunc(sent[i+1:], func(later member) bool { return later.name == m.name }) {
			kept = append(kept, m)
		}
	}
	return kept
}

// exact reads a value of exactly that type.
func exact(is Type, sent json.RawMessage) (any, bool) {
	switch is {
	case Integer:
		m, err := strconv.ParseUint(string(sent), 10, 64)
		return Whole{Magnitude: m}, err == nil && string(sent) != "+" && sent[0] != '+'
	case String:
		s, ok := textOf(sent)
		return s, ok
	case Boolean:
		return string(sent) == "true", string(sent) == "true" || string(sent) == "false"
	case Array:
		var list []string
		err := json.Unmarshal(sent, &list)
		return list, err == nil
	case Object:
		return sent, sent[0] == '{'
	}
	var f float64
	err := json.Unmarshal(sent, &f)
	return f, err == nil
}

// checkStages applies the limits, one kind after the other.
func (t *Tool) checkStages(call Call) error {
	stages := []func(p *Property, v any) bool{
		func(p *Property, v any) bool {
			s, is := v.(string)
			return !is || p.MinLength == 0 || p.admitsLength(s)
		},
		func(p *Property, v any) bool { w, is := v.(Whole); return !is || w.within(p.Minimum, p.Maximum) },
		func(p *Property, v any) bool { s, is := v.(string); return !is || p.MinLength > 0 || p.admitsLength(s) },
		func(p *Property, v any) bool { s, is := v.(string); return !is || p.admitsText(s) },
	}
	for _, passes := range stages {
		for _, v := range call.values {
			p, _ := t.property(v.name)
			if !passes(p, v.is) {
				return t.fault(p.Name, "must be %s; got %s", p.accepted(), got(v.is))
			}
		}
	}
	return nil
}

// got shows a value that was refused.
func got(v any) string {
	switch v := v.(type) {
	case Whole:
		return strconv.FormatUint(v.Magnitude, 10)
	case string:
		if n := length(v); n > excerptLength {
			return strconv.Itoa(n) + " characters"
		}
		return named(v)
	}
	return excerpt(encode(v))
}
