package fleettest

// This file holds what benchmarks compare with, and many hosts behind one sshd.

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// BareLine returns the round trip of a line through ssh to a host and back: what a
// call cannot be faster than. ssh ends with the test.
func BareLine(t testing.TB, client ssh.Client, host string) (trip func()) {
	t.Helper()
	args, err := client.Args(host, nil, "exec cat")
	check(t, err)
	cmd := exec.Command("ssh", args...)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":1}}` + "\n")
	return func() {
		_, err := in.Write(line)
		check(t, err)
		_, err = r.ReadSlice('\n')
		check(t, err)
	}
}

// Links connects n hosts behind one sshd, a few at a time: daemons with a socket and a
// connection of their own. change sets what the links want of them. It returns the
// links and their names in order.
func (s *Server) Links(ctx context.Context, t testing.TB, n int, change func(*link.Options)) (links map[string]*link.Link, hosts []string) {
	t.Helper()
	links = map[string]*link.Link{}
	var group sync.WaitGroup
	places := make(chan struct{}, 4)
	for i := range n {
		name := fmt.Sprintf("h%d", i)
		d := ssh.Dialer{Client: s.Client, Host: "far", Socket: fmt.Sprintf("~/%s/d.sock", name)}
		o := link.Options{Host: name, Dial: d.Dial, ConnectWait: 2 * time.Minute}
		change(&o)
		l := link.New(o)
		t.Cleanup(l.Close)
		links[name] = l
		hosts = append(hosts, name)
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := l.Connect(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return links, hosts
}
