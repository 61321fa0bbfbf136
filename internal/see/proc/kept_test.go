package proc

import (
	"os"
	"strings"
	"testing"
)

func TestKeptFile(t *testing.T) { // not parallel: it counts allocations
	f := written(t, map[string]string{"proc/a": "first"})
	k := f.Keep("proc/a")
	defer k.Close()
	read := func(expected string) {
		t.Helper()
		if data, err := k.Read(); err != nil || string(data) != expected {
			t.Errorf("%.20q (%d bytes) %v", data, len(data), err)
		}
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(f.Path("proc/a"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read("first")
	write("the second is longer")
	read("the second is longer")
	write("short")
	read("short")
	long := strings.Repeat("x", 100<<10)
	write(long)
	read(long)
	k.Close()
	read(long)
	if n := testing.AllocsPerRun(10, func() { k.Read() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	missing := f.Keep("proc/b")
	if _, err := missing.Read(); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
	if err := os.WriteFile(f.Path("proc/b"), []byte("now"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := missing.Read(); err != nil || string(data) != "now" {
		t.Errorf("%q %v", data, err)
	}
	missing.Close()
	if missing.Name() != "proc/b" {
		t.Error(missing.Name())
	}
}
