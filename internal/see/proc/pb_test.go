package proc

import "testing"

var benchLine = []byte("83875 (sleep (2) .sh) S 75750 83875 75750 34824 83875 4194304 173 0 0 0 0 0 0 0 20 0 1 0 18366278 23187456 821 18446744073709551615 94424231874560 94424232638561 140734866834816 0 0 0 65536 4 65538 1 0 0 17 6 0 0 0 0 0 94424232876752 94424232924772 94424259932160 140734866837287 140734866837313 140734866837313 140734866841576 0\n")

func BenchmarkParseStat(b *testing.B) {
	var s Stat
	for b.Loop() {
		ParseStat(benchLine, &s)
	}
}
func BenchmarkOnlyScan(b *testing.B) {
	crowd(b, 1000)
	f, _ := NewFS("/")
	sc := f.NewScanner(ScannerOptions{})
	defer sc.Close()
	n := 0
	for b.Loop() {
		sc.Scan(func(_ int32, s *Stat, err error) { n++ })
	}
}
