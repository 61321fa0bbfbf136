// Package tool is the inventory: every tool of every surface, declared once as
// data. Its schema, the check of its arguments, the flags that choose tools,
// the reference in docs/tools.md and the schema snapshots all derive from that
// declaration.
//
// It sits between contract (the surfaces and their error dialects), which
// serves these tools, and the domain packages, whose functions their handlers
// call. It knows nothing of MCP but how a call goes to another host
// (fleet_call.go). This file holds the declaration itself;
// arguments.go the values of a call; lenient.go and strict.go the two dialects
// in which they are checked; choice.go which tools are served; markdown.go the
// reference; see.go and wsltop.go the tools; fleet.go what puts tools on other hosts.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// The toolsets of the united surface, in the order in which they are listed.
const (
	See     = "see"
	Steer   = "steer"
	Compute = "compute"
	Fleet   = "fleet"
)

// A Tool is one tool of a surface.
type Tool struct {
	Name        string
	Title       string // "" for none
	Description string
	Toolset     string
	Annotations Annotations
	Input       []Property
	// Exclusive are pairs of arguments that cannot be given together.
	Exclusive [][2]string
	// Needs are pairs of which the first argument needs the second.
	Needs [][2]string
	// Output is the schema of the structured result; nil declares none.
	Output  *Schema
	Handler Handler
}

// Annotations are hints to a client about what a tool does to its world.
type Annotations struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// A Handler does the work of one call. Its arguments were checked against the
// tool's declaration. Its error is a typed one of a domain package, or an
// [*ArgumentError] for what only the work could find wrong with an argument.
type Handler func(ctx context.Context, call Call) (Result, error)

// A Result is what a call gives: Structured encodes to a JSON object, and Text
// is a compact rendering that is enough without it. An empty Text stands for
// the JSON itself.
type Result struct {
	Structured any
	Text       string
	// Question asks a person before anything is done; the call is then made
	// again with the answer. What else is in the result is not shown.
	Question *Question
	// Foreign is the answer of another host, which passes as it is; nil for one of
	// this machine. What else is in the result is not shown.
	Foreign *Foreign
}

// Foreign is the answer of a tool on another host, in the bytes that came: valid JSON,
// checked for its shape.
type Foreign struct {
	Content    json.RawMessage // an array of blocks
	Structured json.RawMessage // an object; nil for none
	Failed     bool
}

// A Question is one that a person answers with yes or no, through the client.
// State comes back with the answer and with nothing else.
type Question struct{ Message, State string }

// A Type is a JSON type of an argument.
type Type string

// The types of arguments. An Array holds strings.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	Array   Type = "array"
	Object  Type = "object"
)

// Regexp is the format of an argument that is a regular expression (RE2).
const Regexp = "regex"

// A Property is one argument of a tool. Lengths are in Unicode characters.
type Property struct {
	Name        string
	Type        Type
	Description string
	Required    bool
	Enum        []string
	// Prefix is what the values of Enum may begin with as well: SIGTERM is TERM.
	Prefix    string
	Minimum   *int64 // of an integer or a number
	Maximum   *int64 // nil allows integers up to 2^64-1
	MinLength int
	MaxLength int    // 0 for no limit
	MaxItems  int    // of an array; 0 for no limit
	Format    string // "" or Regexp
	// Terse leaves the lengths out of the schema: who exceeds them is told.
	Terse bool
	// Default is declared in the schema and filled in when the argument is
	// absent. Other defaults are the handler's own and in its description.
	Default any
}

// Bound makes a Minimum or a Maximum.
func Bound(v int64) *int64 { return &v }

// property returns the declaration of an argument.
func (t *Tool) property(name string) (*Property, bool) {
	for i := range t.Input {
		if t.Input[i].Name == name {
			return &t.Input[i], true
		}
	}
	return nil, false
}

// argumentNames lists the tool's arguments for an error message.
func (t *Tool) argumentNames() string {
	if len(t.Input) == 0 {
		return "it takes no arguments"
	}
	names := make([]string, len(t.Input))
	for i, p := range t.Input {
		names[i] = p.Name
		if p.Required {
			names[i] += " (required)"
		}
	}
	return "its arguments are " + strings.Join(names, ", ")
}

// An ArgumentError is a call whose arguments are wrong. The message names the
// argument, what was sent and what is accepted.
type ArgumentError struct {
	Tool     string
	Argument string // "" when no single argument is at fault
	Message  string
}

func (e *ArgumentError) Error() string {
	if e.Argument == "" {
		return fmt.Sprintf("%s: %s", e.Tool, e.Message)
	}
	return fmt.Sprintf("%s: argument %q %s", e.Tool, e.Argument, e.Message)
}
