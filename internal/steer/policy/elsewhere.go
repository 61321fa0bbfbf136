package policy

// This file judges calls to other hosts. What they hit is not known here, and the
// policy over there judges that; here a rule can only ask for the tool, the host and
// the signal.

import (
	"fmt"
	"slices"
)

// ElsewhereTools are the tools beside process_kill that a rule with host= can name.
var ElsewhereTools = []string{
	"get_system_summary", "list_resources", "inspect_resource", "list_children",
	"process_alerts", "alerts_status", "threshold_get", "threshold_set", "config_get", "config_set",
	"eval", "poll", "eval_batch", "env", "lookup", "reset", "cancel", "load", "checkpoint", "restore", "compile_to_binary",
	"start_local_session", "restart_local_session", "update_local_session", "list_sessions", "read_output",
	"push_file", "pull_file",
}

// killTool is the tool whose actions every policy is about.
const killTool = "process_kill"

// possible refuses patterns that nothing can match. What only a call to another host
// can match needs a condition that names hosts.
func (r *rule) possible() error {
	for _, m := range r.matches {
		err := m.possible(values[m.key])
		if err == nil || m.key != "tool" {
			if err != nil {
				return err
			}
			continue
		}
		if m.possible(append([]string{killTool}, ElsewhereTools...)) != nil {
			return err
		}
		if !slices.ContainsFunc(r.matches, func(m match) bool { return m.key == "host" }) {
			return fmt.Errorf("tool=%s is judged on other hosts only: say which, with host=", m.patterns[0])
		}
	}
	return nil
}

// DecideElsewhere says what becomes of a call of a tool on another host; signal is
// that of a process_kill, else "". Rules that ask for anything of a process are the
// other host's own and do not count. A signal is an action as on this machine, with
// the default at the end. Another tool is allowed unless a rule names it, or its
// host.
func (p *Policy) DecideElsewhere(tool, host, signal string) Decision {
	request := Request{Tool: tool, Host: host, Signal: signal}
	for i := range p.rules {
		if r := &p.rules[i]; r.knowable(tool) && r.applies(request) {
			return Decision{Verdict: r.verdict, Line: r.line, Reason: r.reason}
		}
	}
	if tool == killTool || p.broken {
		return p.fallback
	}
	return Decision{Verdict: Allow}
}

// knowable reports whether a rule can be judged without the process, and is about
// that tool.
func (r *rule) knowable(tool string) bool {
	about := tool == killTool
	for _, m := range r.matches {
		switch m.key {
		case "tool", "host":
			about = true
		case "signal":
		default:
			return false
		}
	}
	return about
}
