package tool

// This file writes JSON Schemas from declarations: one type per property, items
// always given, no references, properties in the order declared, so that the
// strictest clients accept them and a snapshot of them reads well.

import (
	"bytes"
	"encoding/json"
)

// A Schema is a JSON Schema of a result, declared by hand. It allows what it
// does not mention, so that a result can grow without a new schema.
type Schema struct {
	Type        Type
	Description string
	Properties  []Field
	Required    []string
	// MinProperties is how many members an object has at least.
	MinProperties int
	Items         *Schema
	Enum          []string
}

// A Field is one property of an object schema. A Schema without a type allows
// anything, null too.
type Field struct {
	Name string
	Schema
}

// InputSchema returns the JSON Schema of the tool's arguments.
func (t *Tool) InputSchema() json.RawMessage {
	var properties object
	required := []string{}
	for i := range t.Input {
		p := &t.Input[i]
		properties.add(p.Name, p.schema())
		if p.Required {
			required = append(required, p.Name)
		}
	}
	var o object
	o.add("type", encode(Object))
	o.add("properties", properties.bytes())
	if len(required) > 0 || t.Toolset == wsltopTools {
		// The wsltop contract has it always; else every client pays for it.
		o.add("required", encode(required))
	}
	o.add("additionalProperties", encode(false))
	return o.bytes()
}

// OutputSchema returns the JSON Schema of the tool's structured result, or nil
// when none is declared.
func (t *Tool) OutputSchema() json.RawMessage {
	if t.Output == nil {
		return nil
	}
	return t.Output.json()
}

func (p *Property) schema() json.RawMessage {
	var o object
	o.add("type", encode(p.Type))
	if p.Description != "" {
		o.add("description", encode(p.Description))
	}
	limits := &o
	var items object
	if p.Type == Array {
		items.add("type", encode(String))
		limits = &items
	}
	if len(p.Enum) > 0 {
		limits.add("enum", encode(p.Enum))
	}
	if p.MinLength > 0 && !p.Terse {
		limits.add("minLength", encode(p.MinLength))
	}
	if p.MaxLength > 0 && !p.Terse {
		limits.add("maxLength", encode(p.MaxLength))
	}
	if p.Format != "" {
		limits.add("format", encode(p.Format))
	}
	if p.Minimum != nil {
		o.add("minimum", encode(*p.Minimum))
	}
	if p.Maximum != nil {
		o.add("maximum", encode(*p.Maximum))
	}
	if p.Type == Array {
		o.add("items", items.bytes())
		if p.MaxItems > 0 {
			o.add("maxItems", encode(p.MaxItems))
		}
	}
	if p.Default != nil {
		o.add("default", encode(p.Default))
	}
	return o.bytes()
}

func (s *Schema) json() json.RawMessage {
	var o object
	if s.Type != "" {
		o.add("type", encode(s.Type))
	}
	if s.Description != "" {
		o.add("description", encode(s.Description))
	}
	if len(s.Enum) > 0 {
		o.add("enum", encode(s.Enum))
	}
	if len(s.Properties) > 0 {
		var properties object
		for i := range s.Properties {
			properties.add(s.Properties[i].Name, s.Properties[i].json())
		}
		o.add("properties", properties.bytes())
	}
	if len(s.Required) > 0 {
		o.add("required", encode(s.Required))
	}
	if s.MinProperties > 0 {
		o.add("minProperties", encode(s.MinProperties))
	}
	if s.Type == Array {
		items := json.RawMessage("{}")
		if s.Items != nil {
			items = s.Items.json()
		}
		o.add("items", items)
	}
	return o.bytes()
}

// An object is a JSON object that keeps the order of its members.
type object struct{ members bytes.Buffer }

func (o *object) add(name string, value json.RawMessage) {
	if o.members.Len() > 0 {
		o.members.WriteByte(',')
	}
	o.members.Write(encode(name))
	o.members.WriteByte(':')
	o.members.Write(value)
}

func (o *object) bytes() json.RawMessage {
	return json.RawMessage("{" + o.members.String() + "}")
}

// encode is for what cannot fail to encode: strings, numbers, lists of them.
func encode(v any) json.RawMessage {
	encoded, err := marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return encoded
}
