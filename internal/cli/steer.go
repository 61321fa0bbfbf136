package cli

// This file makes what steers: thresholds, alerts and process actions, for the
// commands that serve or call tools.

import (
	"time"

	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/steer/action"
	"topside/internal/tool"
)

// advise makes the advisor of a server, with the user's configuration and audit
// log where there is a place for them. It looks at the machine every interval, or at
// its own pace where that is 0; it watches nothing before it is asked. It
// is nil where nothing can be observed; the caller closes it.
func advise(observer *see.Observer, computer *tool.Computer, interval time.Duration) (*steer.Advisor, error) {
	if observer == nil {
		return nil, nil
	}
	o := steer.Options{Observer: observer, Interval: interval}
	if computer != nil {
		o.Protected = func() []action.Protected { return computer.Keepers() }
	}
	if configuration, auditLog, err := steer.Paths(); err == nil {
		o.Config, o.Audit = configuration, auditLog
	}
	return steer.New(o)
}

// dismiss closes an advisor, and leaves it to the end of the process if a pass
// hangs in the kernel.
func dismiss(advisor *steer.Advisor) {
	if advisor == nil {
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- advisor.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
	}
}
