package tui

// This file binds keys to actions, by default and as the configuration says.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An action is something that a key does.
type action string

// The actions, under the names that the configuration uses.
const (
	actQuit       action = "quit"
	actHelp       action = "help"
	actPalette    action = "palette"
	actTheme      action = "theme"
	actThemeBack  action = "theme-back"
	actLayout     action = "layout"
	actLayoutBack action = "layout-back"
	actFull       action = "full-screen"
	actFullNext   action = "full-screen-next"
	actFilter     action = "filter"
	actSort       action = "sort"
	actSortBack   action = "sort-back"
	actReverse    action = "reverse"
	actByCPU      action = "sort-cpu"
	actByMemory   action = "sort-memory"
	actByPID      action = "sort-pid"
	actByTime     action = "sort-time"
	actTree       action = "tree"
	actFold       action = "fold"
	actKernel     action = "kernel-tasks"
	actPerCore    action = "cpu-of-machine"
	actDetails    action = "details"
	actSignal     action = "signal"
	actSeen       action = "acknowledge"
	actFocus      action = "focus"
	actFocusBack  action = "focus-back"
	actUp         action = "up"
	actDown       action = "down"
	actPageUp     action = "page-up"
	actPageDown   action = "page-down"
	actTop        action = "top"
	actBottom     action = "bottom"
	actOpen       action = "open"
	actBack       action = "back"
	actPause      action = "pause"
	actNow        action = "sample-now"
	actFaster     action = "faster"
	actSlower     action = "slower"
	actGlyphs     action = "glyphs"
	actSuspend    action = "suspend"
)

// A binding is an action with its keys and what it does, for the help.
type binding struct {
	action action
	keys   []string
	does   string
}

// bindings are the defaults, in the order in which the help lists them.
var bindings = []binding{
	{actUp, []string{"up"}, "select the row above"},
	{actDown, []string{"down"}, "select the row below"},
	{actPageUp, []string{"pgup"}, "a page up"},
	{actPageDown, []string{"pgdown"}, "a page down"},
	{actTop, []string{"home", "g"}, "the first row; follow it"},
	{actBottom, []string{"end", "G"}, "the last row"},
	{actOpen, []string{"enter"}, "open: details, members, evidence"},
	{actBack, []string{"esc", "backspace"}, "close; clear the filter"},
	{actFocus, []string{"tab"}, "next table"},
	{actFocusBack, []string{"shift+tab"}, "previous table"},
	{actFilter, []string{"/"}, "filter the processes"},
	{actSort, []string{"s", ">"}, "sort by the next column"},
	{actSortBack, []string{"S", "<"}, "sort by the previous column"},
	{actReverse, []string{"r"}, "turn the order round"},
	{actByCPU, []string{"P"}, "sort by CPU"},
	{actByMemory, []string{"M"}, "sort by memory"},
	{actByPID, []string{"N"}, "sort by PID"},
	{actByTime, []string{"I"}, "sort by CPU time"},
	{actTree, []string{"v", "f5"}, "tree or list"},
	{actFold, []string{"space"}, "fold or unfold a subtree"},
	{actKernel, []string{"K"}, "hide or show kernel tasks"},
	{actPerCore, []string{"i"}, "CPU% of a core or of the machine"},
	{actDetails, []string{"d"}, "details of the selected process"},
	{actSignal, []string{"k", "f9"}, "send a signal, after asking"},
	{actSeen, []string{"a"}, "acknowledge the selected alert"},
	{actLayout, []string{"l"}, "next layout"},
	{actLayoutBack, []string{"L"}, "previous layout"},
	{actTheme, []string{"t"}, "next theme"},
	{actThemeBack, []string{"T"}, "previous theme"},
	{actFull, []string{"f"}, "one panel over the whole screen"},
	{actFullNext, []string{"F"}, "the next panel over the whole screen"},
	{actGlyphs, []string{"c"}, "graphs in braille, blocks or ASCII"},
	{actPause, []string{"p"}, "pause and go on"},
	{actNow, []string{"ctrl+l"}, "sample and draw anew"},
	{actFaster, []string{"+", "="}, "sample more often"},
	{actSlower, []string{"-"}, "sample less often"},
	{actPalette, []string{"ctrl+p"}, "find an action by its name"},
	{actHelp, []string{"?", "f1", "h"}, "this help"},
	{actSuspend, []string{"ctrl+z"}, "stop, until the shell's fg"},
	{actQuit, []string{"q", "f10"}, "quit"},
}

// A keymap says what each key does.
type keymap struct {
	actions map[string]action
	keys    map[action][]string
}

// newKeymap lays the bindings of the configuration over the defaults: an
// action that it names has those keys and no others, and takes them from
// whatever had them. What cannot be used is told in remarks. Ctrl+C always
// quits.
func newKeymap(custom map[string][]string) (k keymap, remarks []string) {
	k = keymap{actions: map[string]action{}, keys: map[action][]string{}}
	known := map[action]bool{}
	for _, b := range bindings {
		known[b.action] = true
		if _, changed := custom[string(b.action)]; changed {
			continue
		}
		k.keys[b.action] = slices.Clone(b.keys)
		for _, key := range b.keys {
			k.actions[key] = b.action
		}
	}
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		a := action(name)
		if !known[a] {
			remarks = append(remarks, fmt.Sprintf("keybindings: there is no action %q", name))
			continue
		}
		for _, key := range custom[name] {
			key = keyName(key)
			if key == "" || key == "ctrl+c" {
				remarks = append(remarks, fmt.Sprintf("keybindings: %q cannot be bound to %s", key, name))
				continue
			}
			if other, taken := k.actions[key]; taken && other != a {
				k.keys[other] = slices.DeleteFunc(k.keys[other], func(s string) bool { return s == key })
			}
			k.actions[key] = a
			k.keys[a] = append(k.keys[a], key)
		}
	}
	k.actions["ctrl+c"] = actQuit
	return k, remarks
}

// keyName brings a key's name to the form that events have: modifiers in lower
// case and in order, letters as they are typed.
func keyName(s string) string {
	if s == " " || strings.EqualFold(s, "space") {
		return "space"
	}
	s = strings.TrimSpace(s)
	if len([]rune(s)) <= 1 {
		return s
	}
	s = strings.ToLower(s)
	parts := strings.Split(s, "+")
	if s == "+" || strings.HasSuffix(s, "++") {
		parts = append(parts[:len(parts)-2], "+")
	}
	key := parts[len(parts)-1]
	var out strings.Builder
	for _, modifier := range []string{"ctrl", "alt", "shift", "meta", "hyper", "super"} {
		if slices.Contains(parts[:len(parts)-1], modifier) {
			out.WriteString(modifier + "+")
		}
	}
	switch key {
	case "escape":
		key = "esc"
	case "return":
		key = "enter"
	case "pageup":
		key = "pgup"
	case "pagedown":
		key = "pgdown"
	case "del":
		key = "delete"
	}
	return out.String() + key
}

// first is the first key of an action, for the hints; "" when it has none.
func (k *keymap) first(a action) string {
	if keys := k.keys[a]; len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// label writes keys for people.
func label(keys []string) string {
	names := make([]string, len(keys))
	for i, key := range keys {
		switch key {
		case "up":
			key = "↑"
		case "down":
			key = "↓"
		case "pgup":
			key = "PgUp"
		case "pgdown":
			key = "PgDn"
		case "enter", "esc", "tab", "home", "end", "space", "backspace":
			key = strings.ToUpper(key[:1]) + key[1:]
		case "shift+tab":
			key = "Shift+Tab"
		default:
			if rest, ok := strings.CutPrefix(key, "ctrl+"); ok {
				key = "Ctrl+" + strings.ToUpper(rest)
			} else if len(key) > 1 && key[0] == 'f' {
				key = strings.ToUpper(key)
			}
		}
		names[i] = key
	}
	return strings.Join(names, " ")
}
