package proc

import (
	"errors"
	"testing"
)

func TestPressureRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "pressure")
	for _, row := range corpus(t, "proc_files.tsv") {
		if row["kind"] == "cgroup cpu.pressure" {
			rows[row["id"]] = []byte(row["content"])
		}
	}
	expected := map[string]*Pressure{
		"p014": {Some: &PressureLine{2.04, 0.75, 0.42, 157656722}},
		"p015": {Some: &PressureLine{70.24, 68.52, 69.91, 3559632828}, Full: &PressureLine{57.59, 58.06, 60.38, 3300487258}},
		"p016": {Some: &PressureLine{0, 0, 0, 424932863}, Full: &PressureLine{0, 0, 0, 387245317}},
		"p017": {Full: &PressureLine{0, 0, 0, 100648410}},
		"p020": nil,
		"p021": {Some: &PressureLine{0, 0, 0, 44618}, Full: &PressureLine{0, 0, 0, 44480}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		p, err := ParsePressure(rows[id])
		if (e == nil) != errors.Is(err, ErrMalformed) || e != nil && (!same(p.Some, e.Some) || !same(p.Full, e.Full)) {
			t.Errorf("%s: %+v %v", id, p, err)
		}
	}
	for _, wrong := range []string{"some avg10=1 avg60=1 avg300=1\n", "some avg10=NaN avg60=1 avg300=1 total=1\n", "some avg10=1e9 avg60=1 avg300=1 total=1\n"} {
		if p, err := ParsePressure([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v %v", wrong, p, err)
		}
	}
	f := tree(t, "prometheus-node_exporter")
	if p, err := f.Pressure("irq"); err != nil || p.Some != nil || p.Full == nil {
		t.Errorf("irq: %+v %v", p, err)
	}
	if _, err := f.Pressure("net"); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}
