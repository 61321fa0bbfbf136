package fleet

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAGateLetsSoManyIn(t *testing.T) {
	t.Parallel()
	g := &gate{make(chan struct{}, 2), time.Hour}
	enter := func(wait time.Duration) (func(), error) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		return g.enter(ctx)
	}
	first, err := enter(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := enter(10 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third entered: %v", err)
	}
	first()
	first()
	if _, err := enter(time.Minute); err != nil {
		t.Errorf("after one had left: %v", err)
	}
	if _, err := enter(10 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one left twice, and two entered: %v", err)
	}
}

func TestWhoTakesLongIsInNobodysWay(t *testing.T) {
	t.Parallel()
	g := &gate{make(chan struct{}, 1), 10 * time.Millisecond}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var slow []func()
	for range 3 {
		done, err := g.enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, done)
	}
	for _, done := range slow {
		done()
	}
	for range 2 {
		if _, err := g.enter(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
