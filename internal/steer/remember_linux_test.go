package steer

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"topside/internal/steer/alert"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// together makes advisors of one user: a limit of 0 gives each the same alert.
func together(t *testing.T) func() *Advisor {
	t.Helper()
	folder := t.TempDir()
	store, err := config.Open(filepath.Join(folder, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(func(c *config.Config) error {
		c.Thresholds[threshold.Memory] = threshold.Setting{Limit: 0}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return func() *Advisor {
		return newAdvisor(t, func(o *Options) {
			o.Config, o.Audit, o.Ledger = store.Path(), filepath.Join(folder, "audit.log"), filepath.Join(folder, "alerts.json")
		})
	}
}

func memoryAlert(t *testing.T, a *Advisor, v alert.View) *alert.Alert {
	t.Helper()
	all, err := a.Alerts(ctx(t), v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Rule == "threshold_mem" {
			return &all[i]
		}
	}
	return nil
}

// An alert that was acknowledged is so for the servers that come after, and for
// those that run.
func TestAcknowledgementsOutlastTheServer(t *testing.T) {
	t.Parallel()
	open := together(t)
	first, beside := open(), open()
	if memoryAlert(t, beside, alert.View{}) == nil {
		t.Fatal("no alert")
	}
	found := memoryAlert(t, first, alert.View{})
	if err := first.Acknowledge(found.ID, "known"); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); memoryAlert(t, beside, alert.View{}) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("the server beside never hears of the acknowledgement")
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open()
	if memoryAlert(t, second, alert.View{}) != nil {
		t.Error("the acknowledgement is forgotten")
	}
	kept := memoryAlert(t, second, alert.View{Acknowledged: true})
	if kept == nil || kept.Note != "known" || kept.FirstSeen.After(found.FirstSeen.Add(time.Second)) {
		t.Errorf("kept %+v, found %+v", kept, found)
	}
}

// Where the ledger cannot be written, an acknowledgement holds in this server, and
// the answers say so.
func TestWithoutALedger(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, func(o *Options) {
		o.Ledger = filepath.Join(t.TempDir(), strings.Repeat("x", 300), "alerts.json")
	})
	if _, err := a.SetThresholds(map[threshold.Metric]float64{threshold.Memory: 0}); err != nil {
		t.Fatal(err)
	}
	_, err := a.Store().Update(func(c *config.Config) error {
		c.Thresholds[threshold.Memory] = threshold.Setting{Limit: 0}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := memoryAlert(t, a, alert.View{})
	if found == nil {
		t.Fatal("no alert")
	}
	if err := a.Acknowledge(found.ID, ""); err == nil {
		t.Error("an acknowledgement that cannot be kept does not say so")
	}
	if memoryAlert(t, a, alert.View{}) != nil {
		t.Error("it does not even hold here")
	}
	status, err := a.Status(ctx(t))
	if err != nil || !strings.Contains(strings.Join(status.Warnings, "\n"), "not kept") {
		t.Errorf("%v, %v", status.Warnings, err)
	}
}
