package route

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASlowHostDelaysNobody(t *testing.T) {
	t.Parallel()
	ignores := make(chan struct{})
	defer close(ignores)
	began := time.Now()
	out := Each(context.Background(), []string{"quick", "slow", "deaf", "bad"}, 200*time.Millisecond, func(ctx context.Context, h string) (json.RawMessage, error) {
		switch h {
		case "slow":
			<-ctx.Done()
			return nil, fmt.Errorf("wrapped: %w", ctx.Err())
		case "deaf":
			<-ignores
			return nil, nil
		case "bad":
			return nil, errors.New("no")
		}
		return json.RawMessage(`1`), nil
	})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	var got []Status
	for _, o := range out {
		got = append(got, o.Status)
	}
	if !slices.Equal(got, []Status{OK, TimedOut, TimedOut, Failed}) || out[0].Host != "quick" || string(out[0].Result) != "1" {
		t.Errorf("outcomes %+v", out)
	}
}

func TestAHundredHostsAtOnce(t *testing.T) {
	t.Parallel()
	var hosts []string
	for i := range 200 {
		hosts = append(hosts, fmt.Sprint(i))
	}
	for _, o := range Each(context.Background(), hosts, 0, func(_ context.Context, h string) (json.RawMessage, error) {
		return json.RawMessage(h), nil
	}) {
		if o.Status != OK || string(o.Result) != o.Host {
			t.Errorf("%+v", o)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, o := range Each(ctx, hosts, 0, func(ctx context.Context, _ string) (json.RawMessage, error) { return nil, ctx.Err() }) {
		if o.Status != Cancelled {
			t.Errorf("%+v", o)
		}
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want Status
	}{
		{nil, OK},
		{&host.PolicyError{}, Denied},
		{&host.UnknownError{}, UnknownHost},
		{&link.ConnectError{Cause: &ssh.Error{}}, Unreachable},
		{&link.ConnectError{Cause: &frame.IncompatibleError{}}, Incompatible},
		{&link.ConnectError{Cause: &frame.Failure{Kind: "incompatible"}}, Incompatible},
		{&link.BrokenError{Cause: &ssh.Error{}}, Broken},
		{&link.DeadlineError{Err: context.DeadlineExceeded}, TimedOut},
		{&link.DeadlineError{Err: context.Canceled}, Cancelled},
		{&link.RemoteError{}, Failed},
	}
	for _, tt := range tests {
		if got := StatusOf(tt.err); got != tt.want {
			t.Errorf("%#v: %s", tt.err, got)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	outcomes := []Outcome{
		{Host: "b", Status: OK, Result: json.RawMessage(`[3,1]`)},
		{Host: "a", Status: OK, Result: json.RawMessage(`[2,1]`)},
		{Host: "c", Status: TimedOut},
		{Host: "d", Status: OK, Result: json.RawMessage(`{}`)},
	}
	items, total := Merge(outcomes, func(r json.RawMessage) (l []int, err error) { return l, json.Unmarshal(r, &l) }, cmp.Compare[int], 3)
	if want := []From[int]{{"a", 1}, {"b", 1}, {"a", 2}}; !slices.Equal(items, want) || total != 4 {
		t.Errorf("%v of %d", items, total)
	}
	if outcomes[3].Status != Failed || outcomes[3].Err == nil {
		t.Errorf("%+v", outcomes[3])
	}
}

func TestRoutingIsTakenOut(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"host":"a","x":1,"session":"s"}`: `{"session":"s","x":1}`, `{"x":1}`: `{"x":1}`, `[1]`: `[1]`, `null`: `null`,
	} {
		if got := WithoutRouting(json.RawMessage(in), "host", "hosts"); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
