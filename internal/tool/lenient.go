package tool

// This file checks arguments as the united surface does: what is unambiguous
// is taken for what was meant, and everything else is refused with a message
// that says what would be accepted.
//
//	integer  5812, 5.0, 5e3, "5812"
//	number   1.5, "1.5"
//	boolean  true, "true", "False"
//	string   "x", and 5812 where a string is wanted
//	array    ["a"], "[\"a\"]", and "a" for ["a"]
//	object   {…}, "{…}"
//	enum     in any case
//
// A null for an optional argument is an absent one. An argument that is given
// twice is refused, as no rule says which of them was meant. The order of the
// checks is: names, values in the order sent, pairs, required ones.

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// CheckLenient checks the arguments object of a call of t in the dialect of
// the united surface. Its error is an [*ArgumentError].
func CheckLenient(t *Tool, arguments json.RawMessage) (Call, error) {
	sent, err := members(unquoted(arguments))
	if err != nil {
		return Call{}, t.fault("", "%v", err)
	}
	if err := t.checkNames(sent); err != nil {
		return Call{}, err
	}
	call := Call{tool: t, values: make([]value, 0, len(sent)), sent: arguments}
	for _, m := range sent {
		if isNull(m.sent) {
			continue
		}
		p, _ := t.property(m.name)
		v, err := t.lenientValue(p, m.sent)
		if err != nil {
			return Call{}, err
		}
		call.values = append(call.values, value{m.name, v})
	}
	if err := t.checkPairs(call); err != nil {
		return Call{}, err
	}
	return call, nil
}

// unquoted takes an object that was sent as a string for the object.
func unquoted(sent json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(sent, &s) == nil && strings.HasPrefix(strings.TrimSpace(s), "{") && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return sent
}

func isNull(sent json.RawMessage) bool { return string(sent) == "null" }

// checkNames refuses unknown and repeated arguments.
func (t *Tool) checkNames(sent []member) error {
	for i, m := range sent {
		if _, ok := t.property(m.name); !ok {
			hint := ""
			if near := t.nearest(m.name); near != "" {
				hint = "did you mean " + strconv.Quote(near) + "? "
			}
			return t.fault("", "unknown argument %s; %s%s", named(m.name), hint, t.argumentNames())
		}
		for _, other := range sent[:i] {
			if other.name == m.name {
				return t.fault(m.name, "is given twice; give it once")
			}
		}
	}
	return nil
}

// checkPairs applies the rules between arguments.
func (t *Tool) checkPairs(call Call) error {
	for _, pair := range t.Exclusive {
		if call.Has(pair[0]) && call.Has(pair[1]) {
			return t.fault(pair[0], "cannot be combined with %q; give one of them", pair[1])
		}
	}
	for _, p := range t.Input {
		if p.Required && !call.Has(p.Name) {
			return t.fault(p.Name, "is required (%s); %s", p.accepted(), t.argumentNames())
		}
	}
	for _, pair := range t.Needs {
		if call.Has(pair[0]) && !call.Has(pair[1]) {
			return t.fault(pair[0], "needs %q beside it", pair[1])
		}
	}
	return nil
}

// lenientValue is the value that was meant.
func (t *Tool) lenientValue(p *Property, sent json.RawMessage) (any, error) {
	v, ok := coerce(p, sent)
	if !ok {
		return nil, t.refuse(p, sent)
	}
	if s, is := v.(string); is && p.Format == Regexp {
		if _, err := regexp.Compile(s); err != nil && length(s) <= p.MaxLength {
			return nil, t.fault(p.Name, "is no regular expression (RE2 syntax): %s", excerpt(json.RawMessage(err.Error())))
		}
	}
	if !p.admits(v) {
		return nil, t.refuse(p, sent)
	}
	return v, nil
}

func (t *Tool) refuse(p *Property, sent json.RawMessage) error {
	return t.fault(p.Name, "must be %s; got %s", p.accepted(), excerpt(sent))
}

// coerce turns what was sent into a value of the property's type; ok is false
// when no single reading of it is.
func coerce(p *Property, sent json.RawMessage) (v any, ok bool) {
	text, isText := textOf(sent)
	switch p.Type {
	case Integer:
		if !isText {
			text = string(sent)
		}
		return integral(strings.TrimSpace(text))
	case Number:
		if !isText {
			text = string(sent)
		}
		return finite(strings.TrimSpace(text))
	case Boolean:
		if !isText {
			text = string(sent)
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		return nil, false
	case String:
		if !isText {
			if w, whole := integral(string(sent)); whole {
				return string(sent), w != nil
			}
			return nil, false
		}
		return p.spelled(text), true
	case Array:
		return texts(sent, text, isText)
	case Object:
		object := unquoted(sent)
		return object, len(object) > 0 && object[0] == '{'
	}
	return nil, false
}

func textOf(sent json.RawMessage) (string, bool) {
	var s string
	if len(sent) == 0 || sent[0] != '"' || json.Unmarshal(sent, &s) != nil {
		return "", false
	}
	return s, true
}

// spelled gives an enumerated value in the declared spelling.
func (p *Property) spelled(text string) string {
	given := strings.TrimSpace(text)
	for _, e := range p.Enum {
		if strings.EqualFold(e, given) || p.Prefix != "" && strings.EqualFold(p.Prefix+e, given) {
			return e
		}
	}
	return text
}

// integral reads a decimal number without a fraction: 5812, 5.0, 5e3.
func integral(text string) (any, bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if m, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return Whole{negative && m > 0, m}, !negative || m <= 1<<63
	}
	f, ok := finite(text)
	if !ok || f.(float64) != math.Trunc(f.(float64)) || math.Abs(f.(float64)) > 1<<53 {
		return nil, false
	}
	return Whole{f.(float64) < 0, uint64(math.Abs(f.(float64)))}, true
}

// decimal is a JSON number; strconv alone would take "0x1p4", "1_0" and "Inf".
var decimal = regexp.MustCompile(`^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$`)

func finite(text string) (any, bool) {
	if !decimal.MatchString(text) {
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// texts reads an array of strings: as such, as a string that holds one, or as
// one bare string.
func texts(sent json.RawMessage, text string, isText bool) (any, bool) {
	source := sent
	if isText {
		source = json.RawMessage(strings.TrimSpace(text))
	}
	var list []json.RawMessage
	if json.Unmarshal(source, &list) != nil {
		return []string{text}, isText && !strings.HasPrefix(string(source), "[")
	}
	all := make([]string, len(list))
	for i, item := range list {
		s, ok := textOf(item)
		if !ok {
			if _, ok = integral(string(item)); !ok {
				return nil, false
			}
			s = string(item)
		}
		all[i] = s
	}
	return all, true
}
