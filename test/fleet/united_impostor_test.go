//go:build linux

package fleet

// This file is what hosts have in place of topside: programs that misbehave, and an
// older version. They are the test's own binary, started with a variable.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
)

const (
	hostileVariable = "TOPSIDE_TEST_HOSTILE"
	olderVariable   = "TOPSIDE_TEST_OLDER"
)

// self is this binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// impostor plays a part, if one is asked for.
func impostor() (status int, ok bool) {
	switch {
	case os.Getenv(hostileVariable) != "":
		return fleettest.Hostile(os.Getenv(hostileVariable)), true
	case os.Getenv(olderVariable) == "" || len(os.Args) < 2:
		return 0, false
	}
	switch os.Args[1] {
	case daemon.RelayCommand:
		return fleet.RelayMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr), true
	case daemon.DaemonCommand:
		return fleet.DaemonMain(os.Args[2:], daemon.Config{Version: "older-1", Serve: older, Idle: 30 * time.Second}, os.Stderr), true
	}
	fmt.Println("topside older-1")
	return 0, true
}

// older is a tool server with fewer tools and arguments than this one.
func older(_ context.Context, _ string, conn net.Conn) error {
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var call struct {
			ID     json.RawMessage `json:"id"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &call) != nil || call.ID == nil {
			continue
		}
		code, message := -32602, `unknown tool "`+call.Params.Name+`"; the tools are get_system_summary, list_resources`
		switch call.Params.Name {
		case "list_resources":
			message = `list_resources: unknown argument "limit"; its arguments are most`
		case "get_system_summary":
			code, message = -32011, "out of order"
		}
		encoded, err := json.Marshal(message)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(conn, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", call.ID, code, encoded)); err != nil {
			return nil
		}
	}
}
