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

// TestOneAllocation: what no process could hold is an error that code can catch, and the constructors are what they
// were in every other respect.
func TestOneAllocation(t *testing.T) {
	t.Parallel()
	w := open(t, engine.Options{})
	for source, want := range map[string]string{
		"new ArrayBuffer(1e12)": "Array buffer allocation failed", "new Float64Array(2**33)": "Array buffer allocation failed",
		"new Uint8Array({length: 1e13})": "Array buffer allocation failed", "'x'.repeat(2**40)": "Invalid string length",
		"'x'.padStart(1e12)": "Invalid string length", "'x'.padEnd(1e12, 'yz')": "Invalid string length",
		"'x'.repeat(-1)": "RangeError", "String.prototype.repeat.call(null, 2)": "TypeError",
	} {
		r, _ := w.eval(source)
		if r.Failure == nil || !strings.Contains(r.Failure.Message, want) {
			t.Errorf("%s: %+v", source, r.Failure)
			continue
		}
		for _, l := range r.Failure.Backtrace {
			if l.File == "bounds.js" {
				t.Errorf("%s: the backtrace has %+v", source, l)
			}
		}
	}
	for source, want := range map[string]string{
		"try { new ArrayBuffer(1e15) } catch (e) { e instanceof RangeError }":                     "true",
		"new Uint8Array(3) instanceof Uint8Array && new Uint8Array(3).constructor === Uint8Array": "true",
		"Uint8Array":              "[Function: Uint8Array]",
		"new Uint16Array([1, 2])": "Uint16Array(2) [ 1, 2 ]",
		"Uint8Array.from([1, 2, 3]).map(x => x * 2)": "Uint8Array(3) [ 2, 4, 6 ]", "new (class B extends Uint8Array {})(2) instanceof Uint8Array && !({} instanceof Uint8Array)": "true",
		"class Bytes extends Uint8Array { sum() { return this.reduce((a, b) => a + b) } }; new Bytes([1, 2, 3]).subarray(1).sum()": "5",
		"new Uint8Array(new ArrayBuffer(8), 4).length":                              "4",
		"Object.keys(globalThis).includes('Uint8Array')":                            "false",
		"'ab'.repeat(2) + 'x'.padStart(3) + 'x'.padEnd(3, '-') + 'x'.repeat.length": "'abab  xx--1'",
	} {
		if r, _ := w.eval(source); r.Failure != nil || text(r.Value) != want {
			t.Errorf("%s: %+v %s; want %s", source, r.Failure, text(r.Value), want)
		}
	}
}
