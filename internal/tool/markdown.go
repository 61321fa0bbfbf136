package tool

// This file writes the reference of tools, docs/tools.md.

//go:generate go test -run ^TestReferenceIsFresh$ -update .

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the reference of tools, one section for each toolset.
func Markdown(w io.Writer, tools []*Tool) error {
	var b strings.Builder
	for _, toolset := range Toolsets(tools) {
		fmt.Fprintf(&b, "\n## Toolset `%s`\n", toolset)
		for _, t := range tools {
			if t.Toolset == toolset {
				t.markdown(&b)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Tool) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n%s.\n", t.Name, t.Description, t.Annotations.words())
	if len(t.Input) == 0 {
		b.WriteString("\nIt takes no arguments.\n")
		return
	}
	b.WriteString("\n| Argument | Accepts | Default | Notes |\n| --- | --- | --- | --- |\n")
	for i := range t.Input {
		p := &t.Input[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, cell(p.accepted()), p.defaultWords(), cell(p.Description))
	}
	for _, pair := range t.Exclusive {
		fmt.Fprintf(b, "\n`%s` and `%s` cannot be combined.\n", pair[0], pair[1])
	}
	for _, pair := range t.Needs {
		fmt.Fprintf(b, "\n`%s` needs `%s`.\n", pair[0], pair[1])
	}
	if t.Output != nil && len(t.Output.Properties) > 0 {
		t.Output.markdown(b)
	}
}

func (a Annotations) words() string {
	switch {
	case a.ReadOnly:
		return "Read-only"
	case a.Destructive:
		return "Changes things, and can destroy"
	}
	return "Changes things"
}

func (p *Property) defaultWords() string {
	switch {
	case p.Required:
		return "required"
	case p.Default != nil:
		return fmt.Sprintf("`%v`", p.Default)
	}
	return ""
}

// markdown lists what the structured result declares.
func (s *Schema) markdown(b *strings.Builder) {
	b.WriteString("\nResult:\n\n")
	s.list(b, "")
}

func (s *Schema) list(b *strings.Builder, indent string) {
	for i := range s.Properties {
		f := &s.Properties[i]
		fmt.Fprintf(b, "%s- `%s` %s\n", indent, f.Name, f.typeWords())
		inner := &f.Schema
		if f.Items != nil {
			inner = f.Items
		}
		inner.list(b, indent+"  ")
	}
}

func (s *Schema) typeWords() string {
	switch {
	case s.Type == Array && s.Items != nil && s.Items.Type != "":
		return "array of " + string(s.Items.Type) + "s"
	case s.Type == "":
		return "any value"
	}
	return string(s.Type)
}

// cell is text inside a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
