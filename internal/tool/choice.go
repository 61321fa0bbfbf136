package tool

// This file chooses which tools a surface serves.

import (
	"fmt"
	"slices"
	"strings"
)

// A Choice narrows an inventory. The zero Choice keeps everything.
type Choice struct {
	Toolsets []string // names of toolsets; none means all
	Exclude  []string // names of tools to leave out; wins over everything
	ReadOnly bool     // keep only tools that change nothing
}

// completed are the toolsets that hold what a contract has beside a toolset of
// the united surface: asked for, they bring that toolset with them.
var completed = []struct{ toolset, with string }{{XtopTools, Steer}}

// Choose returns the tools that the choice leaves, in their order. A name of a
// toolset or a tool that the inventory does not have is an error that lists
// those it has.
func Choose(all []*Tool, c Choice) ([]*Tool, error) {
	toolsets := Toolsets(all)
	for _, name := range c.Toolsets {
		if name != "all" && !slices.Contains(toolsets, name) {
			return nil, fmt.Errorf("unknown toolset %s; the toolsets are %s, or all", named(name), strings.Join(toolsets, ", "))
		}
	}
	names := Names(all)
	for _, name := range c.Exclude {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown tool %s to exclude; the tools are %s", named(name), strings.Join(names, ", "))
		}
	}
	every := len(c.Toolsets) == 0 || slices.Contains(c.Toolsets, "all")
	chosen := func(toolset string) bool {
		if slices.Contains(c.Toolsets, toolset) {
			return true
		}
		for _, contract := range completed {
			switch toolset {
			case contract.toolset:
				return false // what other tools supersede is offered on request only
			case contract.with:
				if slices.Contains(c.Toolsets, contract.toolset) {
					return true
				}
			}
		}
		return every
	}
	kept := []*Tool{}
	for _, t := range all {
		if chosen(t.Toolset) && (!c.ReadOnly || t.Annotations.ReadOnly) && !slices.Contains(c.Exclude, t.Name) {
			kept = append(kept, t)
		}
	}
	return kept, nil
}

// Toolsets lists the toolsets of an inventory in their order.
func Toolsets(all []*Tool) []string {
	var names []string
	for _, t := range all {
		if !slices.Contains(names, t.Toolset) {
			names = append(names, t.Toolset)
		}
	}
	return names
}

// Names lists the names of tools in their order.
func Names(all []*Tool) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return names
}
