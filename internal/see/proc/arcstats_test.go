package proc

import (
	"errors"
	"testing"
)

func TestARCRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "spl/kstat/zfs/arcstats")
	expected := map[string]ARC{"p013": {153, 153, 153}}
	covered(t, rows, expected)
	for id, e := range expected {
		if a, err := ParseARC(rows[id]); err != nil || *a != e {
			t.Errorf("%s: %+v %v", id, a, err)
		}
	}
	if a, err := tree(t, "prometheus-node_exporter").ARC(); err != nil || *a != (ARC{Size: 1603939792, Minimum: 33554432, Maximum: 8367976448}) {
		t.Errorf("%+v %v", a, err)
	}
	if _, err := ParseARC([]byte("size 4 1\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
