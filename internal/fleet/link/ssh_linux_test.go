package link_test

import (
	"encoding/json"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

func farHost(t testing.TB, o fleettest.Options) *fleettest.Server {
	t.Helper()
	if o.Programs == nil {
		o.Programs = map[string]string{"topside": self(t)}
	}
	return fleettest.Start(t, o)
}

func linkTo(t testing.TB, s *fleettest.Server, change func(*link.Options)) *link.Link {
	t.Helper()
	d := ssh.Dialer{Client: s.Client, Host: "far"}
	o := link.Options{Host: "far", Dial: d.Dial, Surface: "test", Version: "near"}
	if change != nil {
		change(&o)
	}
	l := link.New(o)
	t.Cleanup(l.Close)
	return l
}

func TestCallsTravelOverSSH(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	l := linkTo(t, s, nil)
	ctx := within(t, 30*time.Second)
	got, err := l.Call(ctx, "echo", json.RawMessage(`{"a":"é\u0001"}`))
	if err != nil || string(got) != `{"a":"é\u0001"}` {
		t.Fatalf("echo: %s, %v", got, err)
	}
	st := l.State()
	if st.Phase != link.Connected || !st.Framed || st.Far.Version != "test" || st.Far.PID == 0 || st.PID == 0 {
		t.Errorf("state: %+v", st)
	}
	if _, err := l.Call(ctx, "nonsense", nil); err == nil || err.Error() != "method not found: nonsense" {
		t.Errorf("an error of the far side: %v", err)
	}
	big, err := l.Call(ctx, "big", json.RawMessage(`{"bytes":5000000}`))
	if err != nil || len(big) != 5000002 {
		t.Errorf("big: %d, %v", len(big), err)
	}
}
