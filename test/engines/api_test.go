//go:build linux

package engines

// The engines' own API, for starting containers, and sockets that misbehave.

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// An api is a Docker-compatible API on a socket.
type api struct {
	t      testing.TB
	client *http.Client
}

func apiAt(t testing.TB, socket string) api {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return api{t, &http.Client{Transport: transport, Timeout: time.Minute}}
}

// try sends a request; body is JSON unless it is a reader.
func (a api) try(method, path string, body, answer any) error {
	var r io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r, kind = b, "application/x-tar"
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return err
		}
		r = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, "http://engine"+path, r)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		return &engineError{method + " " + path, response.Status, string(data)}
	}
	if answer == nil {
		return nil
	}
	if raw, ok := answer.(*[]byte); ok {
		*raw = data
		return nil
	}
	return json.Unmarshal(data, answer)
}

type engineError struct{ request, status, body string }

func (e *engineError) Error() string { return e.request + ": " + e.status + ": " + e.body }

func (a api) do(method, path string, body, answer any) {
	a.t.Helper()
	if err := a.try(method, path, body, answer); err != nil {
		a.t.Fatal(err)
	}
}

func (a api) importImage(tarball, repository, tag string) {
	a.t.Helper()
	f, err := os.Open(tarball)
	if err != nil {
		a.t.Fatal(err)
	}
	defer f.Close()
	a.do("POST", "/images/create?fromSrc=-&repo="+repository+"&tag="+tag, f, nil)
}

// run creates and starts a container.
func (a api) run(name string, settings map[string]any) container {
	a.t.Helper()
	var created struct{ ID string }
	a.do("POST", "/containers/create?name="+name, settings, &created)
	a.do("POST", "/containers/"+created.ID+"/start", nil, nil)
	return a.inspect(name)
}

func (a api) inspect(name string) container {
	a.t.Helper()
	var told struct {
		ID    string
		State struct{ Pid int }
	}
	a.do("GET", "/containers/"+name+"/json", nil, &told)
	return container{name: name, id: told.ID, pid: told.State.Pid}
}

// listen answers every connection to a socket in a way of its own.
func listen(t *testing.T, path string, answer func(io.ReadWriteCloser)) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				answer(c)
			}()
		}
	}()
}
