package cli

// This file shows the named sessions in the terminal view. They belong to the
// servers that run them; the view reads their registry.

import (
	"context"
	"path/filepath"

	"topside/internal/compute/pool"
	"topside/internal/tool"
	"topside/internal/tui"
)

// A registered lists the sessions of one registry.
type registered struct{ path string }

// List implements [tui.Sessions].
func (r registered) List(context.Context) ([]tui.Session, error) {
	entries, err := pool.ReadRegistry(r.path)
	if err != nil {
		return nil, err
	}
	sessions := make([]tui.Session, len(entries))
	for i, e := range entries {
		engine := e.Engine
		if engine == "" {
			engine = "default engine"
		}
		state := ""
		if !e.LastSeen.IsZero() {
			state = "used " + e.LastSeen.Local().Format("Jan 2 15:04")
		}
		sessions[i] = tui.Session{Name: e.Name, Engine: engine, State: state, Since: e.LastSeen}
	}
	return sessions, nil
}

// sessionsOf is the user's sessions; nil where no state is kept.
func sessionsOf() tui.Sessions {
	folder := tool.StateFolder()
	if folder == "" {
		return nil
	}
	return registered{filepath.Join(folder, "sessions.json")}
}
