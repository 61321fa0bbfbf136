package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"topside/internal/see/resource"
)

func TestParseWsltopMCP(t *testing.T) {
	t.Parallel()
	o, err := parseWsltopMCP(strings.Fields("--interval-ms 300 --wsl-only --no-docker --no-wslc --socket s --root r --interval-ms 400"))
	want := wsltopMCPOptions{intervalMS: 400, withoutDocker: true, socket: "s", root: "r", wslOnly: true, withoutWSLC: true, socketGiven: true}
	if err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
	if o, err := parseWsltopMCP(nil); err != nil || o.intervalMS != 3000 || o.root != "/" {
		t.Errorf("by default %+v, %v", o, err)
	}
}

func TestParseWsltopListing(t *testing.T) {
	t.Parallel()
	o, err := parseWsltopListing(strings.Fields(
		"--json --tree --limit=7 --interval-ms 200 --show-docker-processes --container-process-limit 2 --cpu-scale host --sort name --sort-order asc --no-docker"))
	want := wsltopListing{
		json: true, tree: true, limit: 7, intervalMS: 200, containerProcesses: true, containerProcessMax: 2,
		sortBy: resource.ByName, ascending: true, withoutDocker: true, root: "/",
	}
	if err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
}

// FuzzWsltopArguments never panics, and a refusal is a matter of usage.
func FuzzWsltopArguments(f *testing.F) {
	for _, line := range []string{
		"", "--help", "-h", "--interval-ms 100", "--interval-ms", "--json --tree --limit 3", "--limit=", "--tree=x", "--socket  --root /",
		"--show-docker-processes --docker-process-limit 1", "--cpu-scale core --sort cpu --sort-order desc --header classic --color never",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		before := slices.Clone(args)
		_, err := parseWsltopMCP(args)
		checkRefusal(t, err)
		o, err := parseWsltopListing(args)
		checkRefusal(t, err)
		if err == nil && (o.limit < 0 || o.containerProcessMax < 0 || o.intervalMS < 0) {
			t.Errorf("%q gave %+v", line, o)
		}
		if !slices.Equal(args, before) {
			t.Errorf("%q was changed to %q", before, args)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var usage *usageError
	if err != nil && (!errors.As(err, &usage) || usage.message == "") {
		t.Errorf("refused with %v, which is no matter of usage", err)
	}
}

func TestValueOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, kind, want string
	}{
		{"5", "integer", "5"}, {"5", "string", `"5"`}, {"true", "boolean", "true"}, {`["a"]`, "array", `["a"]`},
		{"abc", "integer", `"abc"`}, {"1 2", "integer", `"1 2"`}, {"18446744073709551615", "integer", "18446744073709551615"}, {"", "integer", `""`},
	} {
		if got := compactJSON(valueOf(c.text, c.kind)); got != c.want {
			t.Errorf("valueOf(%q, %s) = %s, want %s", c.text, c.kind, got, c.want)
		}
	}
}

func TestIntervalOf(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{-1, 0, 99, 60001, 1 << 62} {
		if _, err := intervalOf(ms, 60e9); err == nil {
			t.Errorf("%d was accepted", ms)
		}
	}
	for _, ms := range []int64{100, 3000, 60000} {
		if d, err := intervalOf(ms, 60e9); err != nil || d.Milliseconds() != ms {
			t.Errorf("intervalOf(%d) = %v, %v", ms, d, err)
		}
	}
	if _, err := intervalOf(1<<62, 0); err == nil {
		t.Error("an interval of ages was accepted")
	}
}
