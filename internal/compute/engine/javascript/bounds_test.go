package javascript

import (
	"context"
	"strings"
	"testing"
	"time"

	"topside/internal/compute/engine"
)

// patience is far more than a bounded preview needs, and far less than an unbounded one.
const patience = 30 * time.Second

// TestWorkIsBounded: the preview of a value costs what is shown of it, not what it holds.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	w := open(t, engine.Options{})
	w.eval("let arr=[]; for(let i=0;i<6;i++) arr.push(new Array(1e6).fill(1)); 0")
	w.eval("let big={}; for(let i=0;i<3e5;i++) big['k'+i]=i; let bigs=[big,big,big,big,big,big,big,big]; 0")
	w.eval("let m=new Map(), s=new Set(); for(let i=0;i<3e5;i++) { m.set(i,i); s.add(i) }; let ms=Array(20).fill(m).concat(Array(20).fill(s)); 0")
	w.eval("let str=new String('x'.repeat(1e6)), holes=new Array(1e6), child=Object.create(big); 0")
	for source, want := range map[string]string{
		"arr":      "... 999900 more items",
		"big":      "more items",
		"bigs":     "more items",
		"ms":       "Map(300000)",
		"str":      "[String: 'xxx",
		"holes":    "<1000000 empty items>",
		"child":    "{}",
		"[arr[0]]": "... 999900 more items",
	} {
		start := time.Now()
		r, _ := w.eval(source)
		if r.Failure != nil || !strings.Contains(text(r.Value), want) {
			t.Errorf("%s: %+v %.200s", source, r.Failure, text(r.Value))
		}
		if d := time.Since(start); d > patience {
			t.Errorf("%s took %v", source, d)
		}
	}
	start := time.Now()
	found, err := w.Bindings(context.Background(), engine.EnvQuery{Files: []string{evalName}})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > patience {
		t.Errorf("env took %v", d)
	}
	for _, b := range found {
		if b.Name == "arr" && (b.Preview == nil || !strings.HasPrefix(*b.Preview, "[")) {
			t.Errorf("arr: %v", b.Preview)
		}
	}
}
