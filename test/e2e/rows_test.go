//go:build linux

package e2e

// Every line from a real machine comes out of the whole program as the data say:
// cgroup paths as containers and units, stat lines as processes.

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"topside/test/bed"
)

// dataRows reads a table of real machines' lines; "-" is "nothing expected".
func dataRows(t *testing.T, columns int, name ...string) [][]string {
	t.Helper()
	data, err := os.ReadFile(bed.Project(t, name...))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != columns {
			t.Fatalf("%d columns in %q", len(fields), line)
		}
		for i, field := range fields {
			fields[i] = unescape(t, field)
		}
		rows = append(rows, fields)
	}
	return rows
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '\\':
			b.WriteByte('\\')
		case 'x':
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			t.Fatalf("an unknown escape in %q", s)
		}
	}
	return b.String()
}

// A report is what snapshot --json prints, as far as the tests look at it.
type report struct {
	Resources []struct {
		ID          string   `json:"resource_id"`
		Parents     []string `json:"parent_ids"`
		Environment string
		Kind        string
		NativeID    string `json:"id"`
		Name        string
		CPUSeconds  *float64 `json:"cpu_time_seconds"`
		Memory      *float64 `json:"memory_bytes"`
		Process     *struct {
			PID, PPID, Threads int
			Start              uint64 `json:"start_ticks"`
			State, Comm        string
			Unit, Runtime      string
			Container          string `json:"container_id"`
			Pod                string `json:"pod_uid"`
		}
	}
}

// recorded prints a snapshot of a recorded tree.
func recorded(t *testing.T, root string) report {
	t.Helper()
	r := bed.RunBinary(t, "snapshot", "--json", "--root", root)
	if r.Status != 0 {
		t.Fatalf("snapshot of %s: status %d: %s", root, r.Status, r.Stderr)
	}
	var seen report
	if err := json.Unmarshal([]byte(r.Stdout), &seen); err != nil {
		t.Fatalf("%v: %.300s", err, r.Stdout)
	}
	return seen
}

func TestEveryRealCgroupComesOutAsTheDataSay(t *testing.T) {
	t.Parallel()
	rows := dataRows(t, 9, "internal", "see", "container", "testdata", "cgroups.tsv")
	var processes []bed.Process
	for i, row := range rows {
		processes = append(processes, bed.Process{PID: 1000 + i, PPID: 1, Comm: row[0], Args: []string{row[0]}, Cgroup: row[2], RSS: 10, Start: 100 + i})
	}
	root := t.TempDir()
	if err := bed.WriteMachine(root, processes); err != nil {
		t.Fatal(err)
	}
	seen := recorded(t, root)
	byID := map[string]int{}
	byPID := map[int]int{}
	for i, r := range seen.Resources {
		byID[r.ID] = i
		if r.Process != nil {
			byPID[r.Process.PID] = i
		}
	}
	for i, row := range rows {
		index, ok := byPID[1000+i]
		if !ok {
			t.Errorf("%s: no process", row[0])
			continue
		}
		r := seen.Resources[index]
		ambiguous := func(column string) bool {
			if column == "container_id" {
				column = "id"
			}
			_, after, _ := strings.Cut(row[8], "[amb=")
			list, _, _ := strings.Cut(after, "]")
			return slices.Contains(strings.Split(list, ","), column)
		}
		for _, check := range []struct{ column, got, want string }{
			{"runtime", r.Process.Runtime, row[3]},
			{"container_id", r.Process.Container, row[4]},
			{"pod_uid", r.Process.Pod, row[5]},
			{"unit", r.Process.Unit, row[6]},
		} {
			if check.want == "-" || check.column == "runtime" && (check.want == "none" || check.want == "systemd") {
				check.want = ""
			}
			if check.column == "runtime" && (check.got == "none" || check.got == "systemd") {
				check.got = ""
			}
			if check.got != check.want && !ambiguous(check.column) {
				t.Errorf("%s: %s is %q, want %q\n%s", row[0], check.column, check.got, check.want, row[2])
			}
		}
		if row[4] == "-" || ambiguous("container_id") {
			continue
		}
		if len(r.Parents) == 0 {
			t.Errorf("%s: the process is not under its container", row[0])
			continue
		}
		parent := seen.Resources[byID[r.Parents[0]]]
		if parent.Kind != "container" || parent.NativeID != row[4] {
			t.Errorf("%s: the process is under the %s %q, want container %q", row[0], parent.Kind, parent.NativeID, row[4])
		}
	}
}

func TestEveryRealStatLineComesOutAsTheDataSay(t *testing.T) {
	t.Parallel()
	for _, row := range dataRows(t, 12, "internal", "see", "proc", "testdata", "stat.tsv") {
		first, _, _ := strings.Cut(row[2], " ")
		pid, err := strconv.Atoi(first)
		if err != nil || pid <= 0 {
			pid = 4711
		}
		root := t.TempDir()
		if err := bed.WriteMachine(root, []bed.Process{{PID: pid, Stat: row[2]}}); err != nil {
			t.Fatal(err)
		}
		seen := recorded(t, root)
		if len(seen.Resources) != 1 {
			if !slices.Contains(row[3:11], "-") {
				t.Errorf("%s: %d processes", row[0], len(seen.Resources))
			}
			continue
		}
		r := seen.Resources[0]
		if slices.Contains(row[3:11], "-") {
			t.Errorf("%s: a line that is cut gave a process: %+v", row[0], r)
			continue
		}
		number := func(s string) int {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatalf("%s: %v", row[0], err)
			}
			return n
		}
		p := r.Process
		comm := strings.ToValidUTF8(row[3], "\uFFFD")
		for _, check := range []struct {
			what      string
			got, want any
		}{
			{"state", p.State, row[4]},
			{"ppid", p.PPID, number(row[5])},
			{"threads", p.Threads, number(row[8])},
			{"start", fmt.Sprint(p.Start), row[9]},
			{"cpu", fmt.Sprintf("%.2f", *r.CPUSeconds), fmt.Sprintf("%.2f", float64(number(row[6])+number(row[7]))/100)},
			{"memory", *r.Memory, float64(number(row[10])) * 4096},
		} {
			if check.got != check.want {
				t.Errorf("%s: %s is %v, want %v", row[0], check.what, check.got, check.want)
			}
		}
		if p.Comm != comm && !strings.ContainsAny(row[3], "\n\t\x1b") && strings.TrimSpace(comm) == comm {
			t.Errorf("%s: comm is %q, want %q", row[0], p.Comm, comm)
		}
	}
}
