package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/steer/alert"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var here = Origin{Host: "box", Boot: "b1"}

// lasting is an alert seen from one minute after noon to another.
func lasting(id string, from, to int) alert.Alert {
	return alert.Alert{ID: id, FirstSeen: noon.Add(time.Duration(from) * time.Minute), LastSeen: noon.Add(time.Duration(to) * time.Minute), Count: 1,
		Finding: alert.Finding{Rule: "orphan_process", Severity: alert.Warning, PID: 7, StartTicks: 70, Message: "m"}, Processes: []alert.Identity{{PID: 7, StartTicks: 70}}}
}

func ended(a alert.Alert) alert.Alert { a.Ended = a.LastSeen; return a }

func acknowledged(a alert.Alert, note string) alert.Alert {
	a.Acknowledged, a.Note = a.LastSeen, note
	return a
}

func TestKeepsOverTheEndOfAServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "alerts.json")
	first := New(path, here)
	if kept, err := first.Read(); err != nil || len(kept.Lasting)+len(kept.Past) != 0 {
		t.Fatalf("a new ledger: %+v, %v", kept, err)
	}
	want := acknowledged(lasting("a", 0, 5), "known; token=hunter2hunter2")
	if _, err := first.Merge(Kept{Lasting: []alert.Alert{want}, Past: []alert.Alert{ended(lasting("b", 0, 1))}}); err != nil {
		t.Fatal(err)
	}
	kept, err := New(path, here).Read()
	if err != nil || len(kept.Lasting) != 1 || len(kept.Past) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	got := kept.Lasting[0]
	if !got.Acknowledged.Equal(want.Acknowledged) || !strings.HasPrefix(got.Note, "known") || strings.Contains(got.Note, "hunter2") || !reflect.DeepEqual(got.Processes, want.Processes) {
		t.Errorf("kept %+v", got)
	}
	for _, name := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestServersDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "alerts.json")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			f := New(path, here)
			mine := Kept{}
			for j := range 5 {
				mine.Lasting = append(mine.Lasting, acknowledged(lasting(fmt.Sprintf("s%d-%d", i, j), 0, 1), "mine"))
				if _, err := f.Merge(mine); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	kept, err := New(path, here).Read()
	if err != nil || len(kept.Lasting) != 40 {
		t.Errorf("%d are left of 40, %v", len(kept.Lasting), err)
	}
}

func TestWhatEndedElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b          alert.Alert
		lasting, past int
	}{
		"one ends it, the other has not looked since": {ended(lasting("x", 0, 9)), lasting("x", 1, 5), 0, 1},
		"one ends it, the other has seen it since":    {ended(lasting("x", 0, 5)), lasting("x", 1, 9), 1, 0},
		"it came back": {ended(lasting("x", 0, 5)), lasting("x", 7, 9), 1, 1},
		"both end it":  {ended(lasting("x", 0, 5)), ended(lasting("x", 1, 6)), 0, 1},
	} {
		for _, order := range [][2]alert.Alert{{c.a, c.b}, {c.b, c.a}} {
			var kept Kept
			for _, one := range order {
				if one.Active() {
					kept = Merge(kept, Kept{Lasting: []alert.Alert{one}})
				} else {
					kept = Merge(kept, Kept{Past: []alert.Alert{one}})
				}
			}
			if len(kept.Lasting) != c.lasting || len(kept.Past) != c.past {
				t.Errorf("%s: %+v", name, kept)
			}
		}
	}
}

// Whatever two servers know, joining it loses no alert and no acknowledgement, and
// joining it again changes nothing.
func TestMergeLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string) Kept {
			var k Kept
			for range rapid.IntRange(0, 6).Draw(t, label) {
				from := rapid.IntRange(0, 20).Draw(t, "from")
				a := lasting(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), from, from+rapid.IntRange(0, 9).Draw(t, "length"))
				if rapid.Bool().Draw(t, "acknowledged") {
					a = acknowledged(a, label)
				}
				if rapid.Bool().Draw(t, "ended") {
					k.Past = append(k.Past, ended(a))
				} else {
					k.Lasting = append(k.Lasting, a)
				}
			}
			return k
		}
		a, b := some("a"), some("b")
		merged := Merge(a, b)
		covered := func(x alert.Alert) bool {
			for _, list := range [][]alert.Alert{merged.Lasting, merged.Past} {
				for _, m := range list {
					if m.ID == x.ID && !m.FirstSeen.After(x.FirstSeen) && !m.LastSeen.Before(x.LastSeen) && !m.Acknowledged.Before(x.Acknowledged) && m.Count >= x.Count {
						return true
					}
				}
			}
			return false
		}
		for _, list := range [][]alert.Alert{a.Lasting, a.Past, b.Lasting, b.Past} {
			for _, x := range list {
				if !covered(x) {
					t.Fatalf("%s from %s is lost", x.ID, x.FirstSeen)
				}
			}
		}
		if again := Merge(merged, merged); len(again.Lasting) != len(merged.Lasting) || len(again.Past) != len(merged.Past) {
			t.Fatalf("not stable: %d and %d became %d and %d", len(merged.Lasting), len(merged.Past), len(again.Lasting), len(again.Past))
		}
	})
}

func TestOtherMachinesAndBoots(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "alerts.json")
	recent := lasting("x", 0, 0)
	recent.FirstSeen, recent.LastSeen = time.Now().Add(-time.Minute), time.Now()
	for _, o := range []Origin{{"other", "b9"}, {"box", "b0"}} {
		if _, err := New(path, o).Merge(Kept{Lasting: []alert.Alert{recent}}); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := New(path, here).Merge(Kept{})
	if err != nil || len(kept.Lasting) != 0 || len(kept.Past) != 1 {
		t.Errorf("after a boot: %+v, %v", kept, err)
	}
	if kept, err := New(path, Origin{"other", "b9"}).Read(); err != nil || len(kept.Lasting) != 1 {
		t.Errorf("another machine's are gone: %+v, %v", kept, err)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	var k Kept
	for i := range 3000 {
		k.Lasting = append(k.Lasting, lasting(fmt.Sprint("l", i), 0, 1))
		k.Past = append(k.Past, ended(lasting(fmt.Sprint("p", i), 0, 1)))
	}
	merged := Merge(k, k)
	if len(merged.Lasting) != alert.MostActive || len(merged.Past) != alert.MostHistory {
		t.Errorf("%d and %d", len(merged.Lasting), len(merged.Past))
	}
}

func TestOddFiles(t *testing.T) {
	t.Parallel()
	mine := Kept{Lasting: []alert.Alert{lasting("a", 0, 1)}}
	for name, content := range map[string]string{"truncated": `{"version":1,"alerts":[{"id":"a"`, "empty": "", "null": "null", "list": "[]", "text": "alerts"} {
		path := filepath.Join(t.TempDir(), "alerts.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f := New(path, here)
		if _, err := f.Read(); err == nil {
			t.Errorf("%s is read", name)
		}
		if _, err := f.Merge(mine); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if beside, err := os.ReadFile(path + ".unreadable"); err != nil || string(beside) != content {
			t.Errorf("%s is not kept: %q, %v", name, beside, err)
		}
	}
	newer := filepath.Join(t.TempDir(), "alerts.json")
	content := `{"version":2,"alerts":[],"more":true}`
	if err := os.WriteFile(newer, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(newer, here).Merge(mine); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer ledger: %v", err)
	}
	if after, _ := os.ReadFile(newer); string(after) != content {
		t.Error("a newer ledger was written over")
	}
	folder := t.TempDir()
	var file *FileError
	if _, err := New(folder, here).Merge(mine); !errors.As(err, &file) {
		t.Errorf("a folder: %v", err)
	}
}

// A writer that died in the middle leaves the beginning of a file beside the
// ledger, which is as it was; the next writers remove it when it is old.
func TestCrashInMidWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "alerts.json")
	f := New(path, here)
	if _, err := f.Merge(Kept{Lasting: []alert.Alert{acknowledged(lasting("a", 0, 1), "n")}}); err != nil {
		t.Fatal(err)
	}
	torn, young := filepath.Join(filepath.Dir(path), ".alerts.json123"), filepath.Join(filepath.Dir(path), ".alerts.json456")
	for _, name := range []string{torn, young} {
		if err := os.WriteFile(name, []byte(`{"version":1,"al`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(torn, long, long); err != nil {
		t.Fatal(err)
	}
	kept, err := New(path, here).Merge(Kept{})
	if err != nil || len(kept.Lasting) != 1 || kept.Lasting[0].Note != "n" {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, err := os.Stat(torn); !errors.Is(err, os.ErrNotExist) {
		t.Error("what a dead writer left is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("what a writer is writing was removed")
	}
}
