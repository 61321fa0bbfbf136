package pool

import (
	"context"
	"path/filepath"
	"testing"
)

// TestGenerationGrows: a session that was restarted is not the first one again, also after a restart that failed.
func TestGenerationGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := context.Background()
	p := open(t, dir, nil)
	if err := p.Start(ctx, StartRequest{Name: "w"}); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	grown := func() {
		t.Helper()
		s, err := p.Session("w")
		if err != nil {
			t.Fatal(err)
		}
		if r := eval(t, s, "1;;"); r.Generation <= last {
			t.Errorf("generation %d after %d", r.Generation, last)
		} else {
			last = r.Generation
		}
	}
	grown()
	if err := p.Restart(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	grown()
	missing, none := filepath.Join(dir, "missing.ml"), ""
	if err := p.Update("w", &missing, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(ctx, "w"); err == nil {
		t.Fatal("a restart without its prewarm file")
	}
	if err := p.Update("w", &none, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	grown()
}
