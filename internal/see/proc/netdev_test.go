package proc

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestInterfaceRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "net/dev")
	expected := map[string]struct {
		names []string // nil: not all are listed
		count int
		some  []Interface
	}{
		"p044": {[]string{"lo", "eth0", "tun999999", "tun10001:1", "tun10001:2"}, 5, []Interface{
			{Name: "tun999999", TxDropped: 15, TxKnown: true},
			{Name: "eth0", RxBytes: 1000866899965, RxPackets: 764654426, TxBytes: 1267144066, TxPackets: 5373060, TxKnown: true},
			{Name: "tun10001:2", TxKnown: true},
		}},
		"p046": {[]string{"lo", "eth0"}, 2, []Interface{
			{Name: "eth0", RxBytes: 5019464820, RxPackets: 14784542, TxBytes: 8907551793, TxPackets: 12498214, TxKnown: true},
		}},
		"p049": {[]string{"lo", "eth0"}, 2, []Interface{{Name: "lo", TxKnown: true}}},
		"p050": {[]string{"tun0", "wlp3s0", "virbr0", "lo", "virbr0-nic", "virbr1-nic", "virbr1", "enp0s25", "docker0"}, 9, []Interface{
			{Name: "tun0", RxBytes: 110717658, RxPackets: 251484, TxBytes: 120529230, TxPackets: 290405, TxDropped: 46, TxKnown: true},
		}},
		"p051": {nil, -1, []Interface{
			{Name: "lo", RxBytes: 480, RxPackets: 8, TxBytes: 480, TxPackets: 8, TxKnown: true},
			{Name: "eth0", RxBytes: 14948502, RxPackets: 95077, TxKnown: true},
			{Name: "eth47", TxKnown: true},
		}},
		"p052": {[]string{"lo", "enp8s0", "br-211476fe73de", "docker0"}, 4, []Interface{
			{Name: "enp8s0", RxBytes: 482459368, RxPackets: 349468, TxBytes: 16133415, TxPackets: 198549, TxKnown: true},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		interfaces, err := ParseInterfaces(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		var names []string
		for _, i := range interfaces {
			names = append(names, i.Name)
		}
		lines := len(strings.Split(strings.TrimRight(string(rows[id]), "\n"), "\n")) - 2
		if len(names) != lines || e.names != nil && !slices.Equal(names, e.names) {
			t.Errorf("%s: %q of %d lines", id, names, lines)
		}
		for _, i := range e.some {
			if !slices.Contains(interfaces, i) {
				t.Errorf("%s: no %+v in %+v", id, i, interfaces)
			}
		}
	}
}

func TestParseInterfaces(t *testing.T) {
	t.Parallel()
	interfaces, err := ParseInterfaces([]byte("a | b\n eth0: 1 2 3 4 5 6 7 8\n: 1 2 3 4\nnone 1 2 3 4\nx: 1 2\n eth1: 1 2 3 4 5 6 7 8 9 10 11 12"))
	if err != nil || len(interfaces) != 2 || interfaces[0].TxKnown || interfaces[1].TxKnown || interfaces[1].RxDropped != 4 {
		t.Errorf("%+v %v", interfaces, err)
	}
	if _, err := ParseInterfaces(nil); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if i, err := ParseInterfaces([]byte("a | b\na | b\n")); err != nil || len(i) != 0 {
		t.Error(i, err)
	}
}
