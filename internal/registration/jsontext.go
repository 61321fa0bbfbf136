package registration

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// This file changes JSON, with the comments and trailing commas that some clients
// allow.

type jsonText struct{}

func (jsonText) parse(text []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}, nil
	}
	standard, err := hujson.Standardize(bytes.Clone(text)) // it works in place
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(standard))
	d.UseNumber()
	whole := map[string]any{}
	if err := d.Decode(&whole); err != nil {
		return nil, err
	}
	if whole == nil {
		return nil, errors.New("it is null and no object")
	}
	return whole, nil
}

func (jsonText) put(text []byte, table, name string, members []member) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := hujson.Parse(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	unit := indentation(text)
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is no object")
	}
	for depth, key := range []string{table, name} {
		if object, err = below(object, key, depth+1, unit); err != nil {
			return nil, err
		}
	}
	for _, m := range members {
		set(object, m.key, valueOf(m.value), 3, unit)
	}
	return root.Pack(), nil
}

func (jsonText) remove(text []byte, table, name string) ([]byte, error) {
	root, err := hujson.Parse(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	servers := root.Find("/" + table)
	if servers == nil {
		return text, nil
	}
	object, ok := servers.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New(table + " is no object")
	}
	i := index(object, name)
	if i < 0 {
		return text, nil
	}
	last := i == len(object.Members)-1
	trailing := object.Members[len(object.Members)-1].Value.AfterExtra != nil
	object.Members = append(object.Members[:i], object.Members[i+1:]...)
	if n := len(object.Members); last && n > 0 && !trailing {
		object.Members[n-1].Value.AfterExtra = nil
	}
	return root.Pack(), nil
}

// valueOf is a string, or strings on one line.
func valueOf(v any) hujson.ValueTrimmed {
	switch v := v.(type) {
	case []string:
		list := &hujson.Array{}
		for i, item := range v {
			e := hujson.Value{Value: hujson.String(item)}
			if i > 0 {
				e.BeforeExtra = hujson.Extra(" ")
			}
			list.Elements = append(list.Elements, e)
		}
		return list
	default:
		return hujson.String(v.(string))
	}
}

// below is the object of a key, made where there is none.
func below(object *hujson.Object, key string, depth int, unit string) (*hujson.Object, error) {
	if i := index(object, key); i >= 0 {
		inner, ok := object.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			return nil, errors.New(key + " is no object")
		}
		return inner, nil
	}
	inner := &hujson.Object{}
	set(object, key, inner, depth, unit)
	return inner, nil
}

// index is where the member of a key is, the last of several as readers take it; -1
// where there is none.
func index(object *hujson.Object, key string) int {
	for i := len(object.Members) - 1; i >= 0; i-- {
		if literal, ok := object.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == key {
			return i
		}
	}
	return -1
}

// set gives a member a value, or adds it as the last one, on a line of its own.
func set(object *hujson.Object, key string, value hujson.ValueTrimmed, depth int, unit string) {
	if i := index(object, key); i >= 0 {
		object.Members[i].Value.Value = value
		return
	}
	// What stands before the brace, a comment perhaps, comes before the new member.
	before := slices.Concat(bytes.TrimRight(object.AfterExtra, " \t\r\n"), []byte("\n"+strings.Repeat(unit, depth)))
	added := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: before, Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	}
	if n := len(object.Members); n > 0 && object.Members[n-1].Value.AfterExtra != nil {
		added.Value.AfterExtra = hujson.Extra{} // a comma after the last one, as before
	}
	object.Members = append(object.Members, added)
	object.AfterExtra = hujson.Extra("\n" + strings.Repeat(unit, depth-1))
}

// indentation is what the text indents its first member by.
func indentation(text []byte) string {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimLeft(line, " \t")
		if len(trimmed) > 0 && trimmed[0] == '"' && len(trimmed) < len(line) {
			return string(line[:len(line)-len(trimmed)])
		}
	}
	return "  "
}
