package tool

// This file is what the united surface has of the xtop contract beside the steer
// toolset: the five tools that see supersedes, for clients that ask for them.

import "context"

// SupersededTools declares those tools of the contract. Their arguments are
// checked as all of the united surface's, and their structured results are
// objects.
func (x *Xtop) SupersededTools() []*Tool {
	kept := []struct {
		name   string
		output *Schema
		wrap   bool
	}{
		{"system_summary", resultOf(typed("cpu_avg", Number), typed("processes", Integer)), false},
		{"processes_top", resultOf(list("processes")), true},
		{"processes_search", resultOf(list("processes")), true},
		{"process_info", resultOf(typed("pid", Integer), typed("name", String)), false},
		{"plugin_status", resultOf(typed("enabled", Boolean)), false},
	}
	var tools []*Tool
	for _, k := range kept {
		for _, t := range x.tools {
			if t.Name == k.name {
				copied := *t
				copied.Annotations = Annotations{ReadOnly: true}
				copied.Output = k.output
				copied.Handler = x.united(k.name, t.Handler, k.wrap)
				copied.Input = withLists(t.Input)
				tools = append(tools, &copied)
			}
		}
	}
	return tools
}

// withLists declares fields as the list that it may be.
func withLists(input []Property) []Property {
	out := append([]Property{}, input...)
	for i := range out {
		if out[i].Name == "fields" {
			out[i].Type = Array
		}
	}
	return out
}

// united puts a result into an object, and the failures of the contract into
// errors with a code.
func (x *Xtop) united(name string, h Handler, wrap bool) Handler {
	return func(ctx context.Context, c Call) (Result, error) {
		x.tick()
		answer, err := h(ctx, c)
		text := ""
		if err == nil {
			text = compact(answer.Structured)
		}
		x.note(name, text, err)
		if err != nil {
			return Result{}, &SteerError{"failed", err.Error(), ""}
		}
		if wrap {
			answer.Structured = map[string]any{"processes": answer.Structured}
		}
		answer.Text = text
		return answer, nil
	}
}
