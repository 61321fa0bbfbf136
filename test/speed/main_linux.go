package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const bare = "bare-server"

func main() {
	if len(os.Args) > 1 && os.Args[1] == bare {
		if err := serveBare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("binary", "", "measure this program; built from ./cmd/topside when empty")
	idle := flag.Duration("idle", time.Minute, "how long to watch the idle servers")
	calls := flag.Int("calls", 4000, "round trips of each kind")
	starts := flag.Int("starts", 40, "starts of each server")
	flag.Parse()
	if err := run(*binary, *idle, *calls, *starts); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// serveBare is the peer.
func serveBare() error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: ""}}}
	s.AddTool(&mcp.Tool{Name: "empty", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return result, nil })
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

func run(binary string, idle time.Duration, calls, starts int) error {
	if binary == "" {
		dir, err := os.MkdirTemp("", "topside-speed-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "topside")
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/topside")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, measure := range []func(io.Writer, string, string) error{
		func(w io.Writer, binary, self string) error { return roundTrips(w, binary, self, calls) },
		func(w io.Writer, binary, self string) error { return startTimes(w, binary, self, starts) },
		func(w io.Writer, binary, self string) error { return idleCost(w, binary, self, idle) },
	} {
		if err := measure(w, binary, self); err != nil {
			return err
		}
		w.Flush()
	}
	return nil
}

// A server is a child that is spoken with, one line after the other.
type server struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func start(command ...string) (*server, error) {
	c := exec.Command(command[0], command[1:]...)
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return &server{c, in, bufio.NewReaderSize(out, 1<<20)}, nil
}

func (s *server) exchange(line string) ([]byte, error) {
	if _, err := io.WriteString(s.in, line); err != nil {
		return nil, err
	}
	return s.lines.ReadSlice('\n')
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"speed","version":"1"}}}` + "\n"

func (s *server) handshake() error {
	if _, err := s.exchange(initialize); err != nil {
		return err
	}
	_, err := io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

func (s *server) end() {
	s.in.Close()
	_ = s.cmd.Wait()
}

func call(tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, arguments)
}

// snapshotOf takes a snapshot and returns its id and that of a resource.
func (s *server) snapshotOf() (snapshot, resource string, err error) {
	reply, err := s.exchange(call("list_resources", `{"max_age_ms":0,"limit":1}`))
	if err != nil {
		return "", "", err
	}
	var r struct {
		Result struct {
			StructuredContent struct {
				Snapshot struct {
					ID string `json:"snapshot_id"`
				}
				Data []struct {
					ID string `json:"resource_id"`
				}
			}
		}
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return "", "", err
	}
	data := r.Result.StructuredContent
	if len(data.Data) == 0 {
		return "", "", fmt.Errorf("no resources in %.200s", reply)
	}
	return data.Snapshot.ID, data.Data[0].ID, nil
}

type variant struct {
	name    string
	server  *server
	surface []string // how to start it
	call    func(snapshot, resource string) string
	took    []time.Duration
	bytes   int
}

// roundTrips measures calls one after the other, the kinds in turn, in rounds
// that are short against the life of a snapshot.
func roundTrips(w io.Writer, binary, self string, calls int) error {
	see, wsltop := []string{binary, "mcp", "--no-engines"}, []string{binary, "wsltop", "mcp", "--no-docker"}
	variants := []*variant{
		{name: "bare SDK, empty tool", surface: []string{self, bare}, call: func(string, string) string { return call("empty", "{}") }},
		{name: "see: pinned list of 1", surface: see, call: func(s, _ string) string {
			return call("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1}`, s))
		}},
		{name: "see: pinned list of 30", surface: see, call: func(s, _ string) string { return call("list_resources", fmt.Sprintf(`{"snapshot_id":%q}`, s)) }},
		{name: "see: pinned summary", surface: see, call: func(s, _ string) string {
			return call("get_system_summary", fmt.Sprintf(`{"snapshot_id":%q}`, s))
		}},
		{name: "see: pinned inspect", surface: see, call: func(s, r string) string {
			return call("inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, s, r))
		}},
		{name: "wsltop: pinned list of 1", surface: wsltop, call: func(s, _ string) string {
			return call("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1}`, s))
		}},
		{name: "wsltop: pinned summary", surface: wsltop, call: func(s, _ string) string {
			return call("get_system_summary", fmt.Sprintf(`{"snapshot_id":%q}`, s))
		}},
	}
	servers := map[string]*server{}
	for _, v := range variants {
		key := strings.Join(v.surface, " ")
		if servers[key] == nil {
			s, err := start(v.surface...)
			if err != nil {
				return err
			}
			defer s.end()
			if err := s.handshake(); err != nil {
				return err
			}
			servers[key] = s
		}
		v.server = servers[key]
	}
	const batch = 100
	for done := 0; done < calls; done += batch {
		for i := range variants {
			v := variants[(i+done/batch)%len(variants)]
			snapshot, resource := "", ""
			if v != variants[0] {
				var err error
				if snapshot, resource, err = v.server.snapshotOf(); err != nil {
					return err
				}
			}
			line := v.call(snapshot, resource)
			for n := range batch + 5 {
				begun := time.Now()
				reply, err := v.server.exchange(line)
				if err != nil {
					return err
				}
				if n >= 5 { // the first ones only warm up
					v.took = append(v.took, time.Since(begun))
				}
				v.bytes = len(reply)
				if strings.Contains(string(reply[:min(len(reply), 200)]), `"error"`) {
					return fmt.Errorf("%s: %.300s", v.name, reply)
				}
			}
		}
	}
	fmt.Fprintf(w, "round trip over stdio, medians of %d\ttime\tbytes\tx bare SDK\n", calls)
	floor := median(variants[0].took)
	for _, v := range variants {
		fmt.Fprintf(w, "  %s\t%.1f us\t%d\t%.2f\n", v.name, micros(median(v.took)), v.bytes, float64(median(v.took))/float64(floor))
	}
	return nil
}

// startTimes measures from the start of the process to its answer.
func startTimes(w io.Writer, binary, self string, starts int) error {
	variants := []*variant{
		{name: "bare SDK", surface: []string{self, bare}},
		{name: "topside mcp", surface: []string{binary, "mcp"}},
		{name: "topside wsltop mcp", surface: []string{binary, "wsltop", "mcp"}},
	}
	for round := range starts {
		for i := range variants {
			v := variants[(i+round)%len(variants)]
			begun := time.Now()
			s, err := start(v.surface...)
			if err != nil {
				return err
			}
			if _, err := s.exchange(initialize); err != nil {
				return err
			}
			v.took = append(v.took, time.Since(begun))
			s.end()
		}
	}
	fmt.Fprintf(w, "start to the answer to initialize, %d starts\tmedian\t9 of 10 below\tx bare SDK\n", starts)
	for _, v := range variants {
		fmt.Fprintf(w, "  %s\t%.1f ms\t%.1f ms\t%.2f\n", v.name, micros(median(v.took))/1e3, micros(quantile(v.took, 0.9))/1e3,
			float64(median(v.took))/float64(median(variants[0].took)))
	}
	return nil
}

// idleCost watches servers that have answered once and then are left alone.
func idleCost(w io.Writer, binary, self string, idle time.Duration) error {
	type watched struct {
		name   string
		server *server
		before time.Duration
	}
	var all []*watched
	for _, v := range []struct {
		name    string
		command []string
	}{
		{"bare SDK", []string{self, bare}},
		{"topside mcp", []string{binary, "mcp"}},
		{"topside wsltop mcp", []string{binary, "wsltop", "mcp"}},
	} {
		s, err := start(v.command...)
		if err != nil {
			return err
		}
		defer s.end()
		if err := s.handshake(); err != nil {
			return err
		}
		if v.name != "bare SDK" {
			if _, _, err := s.snapshotOf(); err != nil {
				return err
			}
		}
		all = append(all, &watched{name: v.name, server: s})
	}
	time.Sleep(2 * time.Second) // what was begun by the calls
	for _, v := range all {
		v.before = cpuOf(v.server.cmd.Process.Pid)
	}
	begun := time.Now()
	time.Sleep(idle)
	fmt.Fprintf(w, "idle for %v, after one answer\tCPU of one core\tresident\tpeak\n", idle)
	for _, v := range all {
		pid := v.server.cmd.Process.Pid
		share := float64(cpuOf(pid)-v.before) / float64(time.Since(begun))
		fmt.Fprintf(w, "  %s\t%.4f %%\t%.1f MB\t%.1f MB\n", v.name, share*100, memoryOf(pid, "VmRSS"), memoryOf(pid, "VmHWM"))
	}
	return nil
}

// cpuOf is the CPU time of a process with its threads, in nanoseconds by the
// scheduler.
func cpuOf(pid int) time.Duration {
	var sum time.Duration
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(data), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// memoryOf is a figure of a process's status in MB.
func memoryOf(pid int, name string) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), name+":")
	var kb float64
	_, _ = fmt.Sscan(rest, &kb)
	return kb * 1024 / 1e6
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func median(of []time.Duration) time.Duration { return quantile(of, 0.5) }

func quantile(of []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
