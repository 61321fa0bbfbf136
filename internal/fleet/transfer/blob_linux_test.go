package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/transfer"
)

// farTools is a peer that has only the two tools, with a cap of its own.
func farTools(limit int64) transfer.Caller {
	return func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
		var p struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		run := transfer.SendBlob
		if p.Name == transfer.RecvBlobTool {
			run = transfer.RecvBlob
		}
		text, err := run(transfer.LocalStore{}, p.Arguments, limit)
		if err != nil {
			text = err.Error()
		}
		return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": err != nil})
	}
}

// The contract's results and texts of push_file and pull_file (sections 5.11, 5.12).
func TestBlobsOfTheContract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := context.Background()
	small := write(t, dir+"/f.txt", []byte("hello"), 0o644)
	big := write(t, dir+"/big", make([]byte, 200), 0o644)
	if err := os.Mkdir(dir+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
	push := func(local, remote string, near, far int64) (string, error) {
		return transfer.PushBlob(ctx, farTools(far), "t", local, remote, near)
	}
	pull := func(remote, local string, near, far int64) (string, error) {
		return transfer.PullBlob(ctx, farTools(far), "t", remote, local, near)
	}
	cap := "cap is 100 (TOPUP_XFER_MAX_BYTES)"
	tests := []struct {
		name string
		run  func() (string, error)
		want string
		bad  bool
	}{
		{"push", func() (string, error) { return push(small, dir+"/new/p", 100, 100) }, `{"remote_path":"` + dir + `/new/p","bytes":5}`, false},
		{"pull", func() (string, error) { return pull(small, dir+"/new/q", 100, 100) }, `{"local_path":"` + dir + `/new/q","bytes":5}`, false},
		{"push over", func() (string, error) { return push(small, dir+"/new/p", 100, 100) }, `{"remote_path":"` + dir + `/new/p","bytes":5}`, false},
		{"push of nothing", func() (string, error) { return push(dir+"/x", dir+"/y", 100, 100) }, "no such file: " + dir + "/x", true},
		{"push of a folder", func() (string, error) { return push(dir+"/d", dir+"/y", 100, 100) }, "not a regular file: " + dir + "/d", true},
		{"push of a device", func() (string, error) { return push("/dev/zero", dir+"/y", 100, 100) }, "not a regular file: /dev/zero", true},
		{"push over the cap here", func() (string, error) { return push(big, dir+"/y", 100, 1000) }, "file too large: " + big + " is 200 bytes; " + cap, true},
		{"push over the cap there", func() (string, error) { return push(big, dir+"/y", 1000, 100) }, "remote t: payload too large: 200 bytes; " + cap, true},
		{"push below a file", func() (string, error) { return push(small, small+"/y", 100, 100) }, "remote t: " + small + "/y.tmp: Not a directory", true},
		{"pull of nothing", func() (string, error) { return pull(dir+"/x", dir+"/y", 100, 100) }, "remote t: no such file: " + dir + "/x", true},
		{"pull over the cap there", func() (string, error) { return pull(big, dir+"/y", 1000, 100) }, "remote t: file too large: " + big + " is 200 bytes; " + cap, true},
		{"pull over the cap here", func() (string, error) { return pull(big, dir+"/y", 100, 1000) }, "payload too large: 200 bytes; " + cap, true},
		{"pull onto a folder", func() (string, error) { return pull(small, dir+"/d", 100, 100) }, dir + "/d: Is a directory", true},
	}
	for _, tt := range tests {
		got, err := tt.run()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if _, err := os.Lstat(dir + "/y"); err == nil {
		t.Error("a failure left a file")
	}
}

func TestBadPayloads(t *testing.T) {
	t.Parallel()
	answer := func(result string) transfer.Caller {
		return func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			if result == "" {
				return nil, errors.New("channel: closed before response")
			}
			return json.RawMessage(result), nil
		}
	}
	text := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return `{"content":[{"type":"text","text":` + string(b) + `}],"isError":false}`
	}
	tests := []struct{ result, want string }{
		{text(`{}`), "remote t: remote response missing 'data'"},
		{text(`nonsense`), "remote t: remote response missing 'data'"},
		{text(`{"data":"YQ"}`), "remote t: base64 decode: Wrong padding"},
		{text(`{"data":"!!!!"}`), "remote t: base64 decode: Malformed input"},
		{text(`{"data":"` + strings.Repeat("YWJj", 100) + `"}`), "payload too large: 300 bytes; cap is 100 (TOPUP_XFER_MAX_BYTES)"},
		{`{}`, "remote t: remote response has no content"},
		{`3`, "remote t: remote response has no content"},
		{"", "remote t: channel: closed before response"},
	}
	for _, tt := range tests {
		_, err := transfer.PullBlob(context.Background(), answer(tt.result), "t", "/r", t.TempDir()+"/l", 100)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%.60s: %v", tt.result, err)
		}
	}
}

// TestSweepBlobs: what a killed writer left goes with the next write into the folder;
// what another writer holds, or has just made, stays.
func TestSweepBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hour := time.Now().Add(-time.Hour)
	write := func(name string, at time.Time) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	left, held, fresh, other := write(".topup-1.tmp", hour), write(".topup-2.tmp", hour), write(".topup-3.tmp", time.Now()), write("x.tmp", hour)
	f, err := os.OpenFile(held, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.WriteLocalBlob(filepath.Join(dir, "new"), []byte("x"), 1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{left: false, held: true, fresh: true, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", path, err == nil, want)
		}
	}
}
