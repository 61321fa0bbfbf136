package tool

// This file holds the arguments of one call: how they are taken from the JSON
// that was sent, and how a handler gets at them once they are checked.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"topside/internal/fleet/frame"
	"topside/internal/see/plaintext"
)

// A Call is a checked call of a tool. An argument has the Go type of its
// declared type: string, [Whole], float64, bool, []string or json.RawMessage.
type Call struct {
	tool   *Tool
	values []value
	sent   json.RawMessage // the arguments as they came
	// Progress tells the client how far the call is, in a line; nil when the
	// client did not ask for that.
	Progress func(message string)
	// Begun is called when the call has its place in the order of its session,
	// so that the next one may take its own; nil where nobody waits for that.
	Begun func()
	// Advance tells the client a figure beside the line; nil as Progress.
	Advance func(done, total float64, message string)
	// Turn waits for the turn of a call on many hosts on one of them, and returns its
	// Begun; nil where no order is kept.
	Turn func(ctx context.Context, host string) (begun func())
	// CanAsk says that the client shows a [Question] to a person.
	CanAsk bool
	// Client is what the client calls itself; "" when it did not say.
	Client string
	// Answer is what became of the [Question] of an earlier result of this
	// call; nil when there was none.
	Answer *Answer
}

// An Answer is the word of a person, asked through the client.
type Answer struct {
	State  string // of the [Question]
	Agreed bool
	Why    string // of a no: the person declined, the client cannot ask
}

type value struct {
	name string
	is   any
}

// Whole is an integer argument between -2^63 and 2^64-1.
type Whole struct {
	Negative  bool
	Magnitude uint64
}

// Int returns the integer, held to what an int64 can be.
func (w Whole) Int() int64 {
	switch {
	case w.Negative && w.Magnitude > 1<<63-1:
		return -1 << 63
	case w.Negative:
		return -int64(w.Magnitude)
	case w.Magnitude > 1<<63-1:
		return 1<<63 - 1
	}
	return int64(w.Magnitude)
}

// within reports whether the integer lies between the bounds.
func (w Whole) within(low, high *int64) bool {
	if low != nil && w.Int() < *low {
		return false
	}
	return high == nil || w.Int() <= *high && (w.Negative || w.Magnitude <= 1<<63-1)
}

func (c Call) get(name string) (any, bool) {
	for i := range c.values {
		if c.values[i].name == name {
			return c.values[i].is, true
		}
	}
	if c.tool != nil {
		if p, ok := c.tool.property(name); ok && p.Default != nil {
			return p.defaultValue(), true
		}
	}
	return nil, false
}

// defaultValue is the declared default in the type that a Call holds.
func (p *Property) defaultValue() any {
	if n, ok := p.Default.(int); ok && p.Type == Integer {
		if n < 0 {
			return Whole{Negative: true, Magnitude: uint64(-n)}
		}
		return Whole{Magnitude: uint64(n)}
	}
	return p.Default
}

// Has reports whether the argument was given.
func (c Call) Has(name string) bool {
	return slices.ContainsFunc(c.values, func(v value) bool { return v.name == name })
}

// Text returns a string argument, or "" when it was not given.
func (c Call) Text(name string) string {
	v, _ := c.get(name)
	s, _ := v.(string)
	return s
}

// Integer returns an integer argument or its default; ok is false when there
// is neither.
func (c Call) Integer(name string) (w Whole, ok bool) {
	v, _ := c.get(name)
	w, ok = v.(Whole)
	return w, ok
}

// Number returns a number argument or its default.
func (c Call) Number(name string) (f float64, ok bool) {
	v, _ := c.get(name)
	f, ok = v.(float64)
	return f, ok
}

// Flag returns a boolean argument, its default, or false.
func (c Call) Flag(name string) bool {
	v, _ := c.get(name)
	b, _ := v.(bool)
	return b
}

// Texts returns an array argument, its default, or nil.
func (c Call) Texts(name string) []string {
	v, _ := c.get(name)
	s, _ := v.([]string)
	return s
}

// Object returns an object argument as it was sent, or nil.
func (c Call) Object(name string) json.RawMessage {
	v, _ := c.get(name)
	o, _ := v.(json.RawMessage)
	return o
}

// Fault is an [*ArgumentError] about an argument of this call.
func (c Call) Fault(argument, format string, args ...any) error {
	return c.tool.fault(argument, format, args...)
}

func (t *Tool) fault(argument, format string, args ...any) *ArgumentError {
	return &ArgumentError{Tool: t.Name, Argument: argument, Message: fmt.Sprintf(format, args...)}
}

// A member is one name and value as they were sent, in the order sent.
type member struct {
	name string
	sent json.RawMessage
}

// members takes an object apart. A missing or null object has no members.
func members(object json.RawMessage) ([]member, error) {
	object = bytes.TrimSpace(object)
	if len(object) == 0 || string(object) == "null" {
		return nil, nil
	}
	if all, ok := plainMembers(object); ok {
		return all, nil
	}
	return decodedMembers(object)
}

func decodedMembers(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, fmt.Errorf("arguments must be a JSON object; got %s", excerpt(object))
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("arguments are not JSON: %w", err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.sent); err != nil {
			return nil, fmt.Errorf("arguments are not JSON: %w", err)
		}
		all = append(all, m)
	}
	return all, nil
}

// plainMembers takes an object apart that is valid and whose names stand for
// themselves, as nearly all do; it is several times faster than a decoder.
func plainMembers(object json.RawMessage) (all []member, ok bool) {
	if object[0] != '{' || !json.Valid(object) {
		return nil, false
	}
	ok = true
	frame.Members(object, func(name string, sent []byte) {
		ok = ok && isPlain(name)
		all = append(all, member{name, sent[:len(sent):len(sent)]})
	})
	return all, ok
}

// isPlain tells whether a string of JSON is without escapes and is ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] == '\\' || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// excerptLength is how much of what was sent an error message repeats.
const excerptLength = 60

// excerpt shows what was sent, sanitised and bounded.
func excerpt(sent json.RawMessage) string {
	shown, _ := plaintext.Bounded(string(sent), excerptLength)
	return shown
}

// named shows the name of an argument, sanitised and bounded.
func named(name string) string {
	shown, _ := plaintext.Bounded(name, excerptLength)
	return fmt.Sprintf("%q", shown)
}

func length(s string) int { return utf8.RuneCountInString(s) }

// key is the same for calls of one tool with the same arguments.
func (c *Call) key() string { return fmt.Sprint(c.tool.Name, c.values) }
