package session

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func benchSession(b *testing.B, change func(*Options)) *Session {
	b.Helper()
	dir := b.TempDir()
	o := Options{Language: caml(), LogPath: filepath.Join(dir, "history.ml"), CheckpointDir: dir, Spill: NewSpill(filepath.Join(dir, "spill"))}
	if change != nil {
		change(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(); o.Spill.Close() })
	return s
}

func benchEval(b *testing.B, s *Session, source string) {
	b.Helper()
	r, err := s.Eval(context.Background(), Request{Source: source})
	if err != nil || r.Err != nil {
		b.Fatalf("%v %+v", err, r.Err)
	}
}

// BenchmarkEval is one evaluation after the other, without a pause.
func BenchmarkEval(b *testing.B) {
	s := benchSession(b, nil)
	benchEval(b, s, "1+1;;")
	for b.Loop() {
		benchEval(b, s, "1+1;;")
	}
}

// BenchmarkEvalSpaced has a pause before each evaluation, in which the keeper is forked: what a caller feels.
func BenchmarkEvalSpaced(b *testing.B) {
	s := benchSession(b, nil)
	var total time.Duration
	n := 0
	for b.Loop() {
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		benchEval(b, s, "1+1;;")
		total += time.Since(begin)
		n++
	}
	b.ReportMetric(float64(total.Microseconds())/float64(n), "µs/call")
}

func BenchmarkBatch100(b *testing.B) {
	s := benchSession(b, nil)
	sources := make([]string, 100)
	for i := range sources {
		sources[i] = "1+1;;"
	}
	for b.Loop() {
		if rs, err := s.EvalBatch(context.Background(), sources, 0); err != nil || len(rs) != 100 {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnv(b *testing.B) {
	s := benchSession(b, nil)
	benchEval(b, s, "let a = 1 let b = \"x\" let c = [1;2;3] let d x = x + a;;")
	for b.Loop() {
		if bs, err := s.Env(context.Background(), false, ""); err != nil || len(bs) != 4 {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnvAll(b *testing.B) {
	s := benchSession(b, nil)
	for b.Loop() {
		if _, err := s.Env(context.Background(), true, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	s := benchSession(b, nil)
	benchEval(b, s, "let a = 1;;")
	for b.Loop() {
		if _, err := s.Lookup(context.Background(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	benchSession(b, nil)
	for b.Loop() {
		s, err := Open(context.Background(), Options{Language: caml()})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkOutput10MB prints 10 MB in one evaluation.
func BenchmarkOutput10MB(b *testing.B) {
	s := benchSession(b, nil)
	benchEval(b, s, "let line = String.make 79 'x' ^ \"\\n\";;")
	for b.Loop() {
		r, err := s.Eval(context.Background(), Request{Source: "for i = 1 to 131072 do print_string line done;;"})
		if err != nil || r.Err != nil || r.Stdout.Total != 131072*80 {
			b.Fatalf("%v %+v", err, r)
		}
		b.StopTimer()
		os.Remove(r.Stdout.Path)
		b.StartTimer()
	}
}

// BenchmarkRecovery is an evaluation that ends its process, and the return of the state.
func BenchmarkRecovery(b *testing.B) {
	s := benchSession(b, nil)
	for b.Loop() {
		b.StopTimer()
		time.Sleep(10 * time.Millisecond)
		b.StartTimer()
		r, err := s.Eval(context.Background(), Request{Source: "exit 1;;"})
		if err != nil || r.Recovery == nil {
			b.Fatalf("%v %+v", err, r)
		}
	}
}

// BenchmarkReset empties a session that has evaluated something, in a quiet moment.
func BenchmarkReset(b *testing.B) {
	s := benchSession(b, nil)
	for b.Loop() {
		b.StopTimer()
		benchEval(b, s, "let x = 1;;")
		time.Sleep(10 * time.Millisecond)
		b.StartTimer()
		if err := s.Reset(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
