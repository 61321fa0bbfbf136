package cli

import (
	"reflect"
	"slices"
	"testing"
)

// TestLetGo checks that what is let go of is this program's code and constants, and
// that the program still runs without them.
func TestLetGo(t *testing.T) {
	t.Parallel()
	all := programMappings()
	code := reflect.ValueOf(TestLetGo).Pointer()
	if !slices.ContainsFunc(all, func(m mapping) bool { return m.begin <= code && code < m.end }) {
		t.Fatalf("the code at %x is in none of %x", code, all)
	}
	for range 100 {
		letGo()
	}
	if again := programMappings(); !slices.Equal(again, all) {
		t.Errorf("the mappings were %x and are %x", all, again)
	}
}
